// Points in time as JSON strings.
#include <ergon/base/error.hpp>
#include <ergon/base/time.hpp>
#include <ergon/codec/json.hpp>

namespace ergon::detail {

void write_time(json_writer& out, wall_time at) {
  // 1677 and 2262 are in the range of the type only in part; what would be written must be readable again.
  constexpr wall_time first = std::chrono::sys_days{std::chrono::year{1678} / 1 / 1};
  constexpr wall_time after = std::chrono::sys_days{std::chrono::year{2262} / 1 / 1};
  if (at < first || at >= after) out.fail("the time is not between 1678 and 2261");
  out.literal('"');
  out.literal(format_time(at));
  out.literal('"');
}

wall_time read_time(json_reader& in) {
  if (in.peek() != json_reader::type::text) in.fail_expected("a time");
  const std::string_view text = in.text();
  try {
    return parse_time(text);
  } catch (const error& failure) {
    in.fail(failure.what());
  }
}

}  // namespace ergon::detail
