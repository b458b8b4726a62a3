// The place of the handler interface's vtable.
#include <ergon/queue/handler.hpp>

namespace ergon::detail {

job_handler::~job_handler() = default;

}  // namespace ergon::detail
