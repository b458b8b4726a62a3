#include "runtime/io_driver.hpp"
namespace ergon::detail {
std::unique_ptr<io_driver> make_io_driver() { return nullptr; }
}  // namespace ergon::detail
