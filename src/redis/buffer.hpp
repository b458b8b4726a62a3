// Buffers that are used again and again. Stateless; any thread.
#pragma once

#include <cstddef>

namespace ergon::redis {

/// Empties a string or a vector. Its memory stays for the next use, unless it is more than `keep_bytes`: then it is given back.
template <class Container>
void empty_for_reuse(Container& buffer, std::size_t keep_bytes) noexcept {
  buffer.clear();
  if (buffer.capacity() * sizeof(typename Container::value_type) > keep_bytes) Container{}.swap(buffer);
}

}  // namespace ergon::redis
