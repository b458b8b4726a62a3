// Sessions that close themselves when nobody has used them for a while: a timer each, and no task.
#include <atomic>
#include <chrono>
#include <cstdio>
#include <deque>

#include <ergon/runtime/latch.hpp>
#include <ergon/runtime/runtime.hpp>
#include <ergon/runtime/timer.hpp>

namespace {

using namespace std::chrono_literals;

class session final : public ergon::timer_callback {
 public:
  session(ergon::runtime& rt, ergon::latch& closed) : rt_(&rt), closed_(&closed) { start(rt, 5ms); }

  // Its time begins again.
  void use() {
    if (stop()) {
      start(*rt_, 20ms);
    }
  }

 private:
  void expired() noexcept override { closed_->count_down(); }

  ergon::runtime* rt_;
  ergon::latch* closed_;
};

}  // namespace

int main() {
  constexpr int many = 1000;
  ergon::latch closed{many};
  std::deque<session> sessions;
  ergon::runtime rt;
  for (int i = 0; i < many; ++i) {
    sessions.emplace_back(rt, closed);
  }
  for (int i = 0; i < many; i += 10) {
    sessions[static_cast<std::size_t>(i)].use();
  }
  rt.block_on([](ergon::latch& closed) -> ergon::task<void> { co_await closed.wait(); }(closed));
  std::printf("%d sessions have closed; each timer took %zu bytes\n", many, sizeof(ergon::timer_callback));
}
