// See stop.hpp.
#include <ergon/runtime/stop.hpp>

namespace ergon::detail {

bool checkpoint_operation::arm() noexcept { return false; }
bool checkpoint_operation::disarm() noexcept { return false; }

}  // namespace ergon::detail
