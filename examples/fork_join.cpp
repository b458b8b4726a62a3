// Computing in parallel: the sum of a large array, halved until the parts are small.
#include <cstdio>
#include <numeric>
#include <span>
#include <vector>

#include <ergon/runtime/fork_join.hpp>
#include <ergon/runtime/runtime.hpp>

namespace {

ergon::task<long> sum(std::span<const int> of) {
  if (of.size() <= 4096) {
    co_return std::accumulate(of.begin(), of.end(), 0L);
  }
  auto [left, right] = co_await ergon::fork_join(sum(of.first(of.size() / 2)), sum(of.subspan(of.size() / 2)));
  co_return left + right;
}

}  // namespace

int main() {
  std::vector<int> numbers(1'000'000);
  std::iota(numbers.begin(), numbers.end(), 1);

  ergon::runtime rt;
  long const total = rt.block_on(sum(numbers));
  std::printf("the sum of 1 to 1,000,000 is %ld\n", total);
  return total == 500'000'500'000 ? 0 : 1;
}
