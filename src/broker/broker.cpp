// The places of the interfaces' vtables.
#include <ergon/broker/broker.hpp>

namespace ergon {

consumer::~consumer() = default;

broker::~broker() = default;

}  // namespace ergon
