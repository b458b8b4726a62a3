// The broker of `memory:`: jobs that live as long as the process, for tests, benchmarks and work that may be lost with it.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include <ergon/base/url.hpp>
#include <ergon/broker/broker.hpp>

namespace ergon {

/// `memory:` is the process's own store, kept until the process ends; `memory:NAME` is kept until the last broker and consumer of that
/// name are gone. Handles to one store share its jobs; the options count for the handle that gives them:
/// `max_payload=SIZE` (16MiB; at most 256MiB), `max_bytes=SIZE` (what the whole store may hold while this handle enqueues; no limit).
/// All handles to one store must go by clocks that agree. Throws `errc::bad_url`.
[[nodiscard]] std::shared_ptr<broker> open_memory(const url& where, broker_options options);

/// Puts a ready job into a memory broker's queue whose record is `bytes`, whatever they are: for tests of damage and of
/// newer releases. Returns its public id. `of` must be what `open_memory` gave.
std::string inject_record(broker& of, std::string_view queue, std::string_view bytes);

}  // namespace ergon
