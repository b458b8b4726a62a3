// Waiting in the kernel for a word to change. The word is an ordinary atomic that the callers order by; waking a word that is
// gone by then does no harm.
#pragma once

#include <atomic>
#include <cstdint>

#include <ergon/base/clock.hpp>

namespace ergon::detail {

/// Returns when the word is woken, differs from `expected`, or the machine's steady clock has reached `deadline`; also for no
/// reason. `steady_time::max()` waits without limit.
void futex_wait(std::atomic<std::uint32_t>& word, std::uint32_t expected, steady_time deadline) noexcept;
void futex_wake(std::atomic<std::uint32_t>& word, int waiters) noexcept;

}  // namespace ergon::detail
