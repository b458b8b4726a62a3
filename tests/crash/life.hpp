// A job's life, and everything that can end one: what the crash tests run in a process (or, on `memory:`, beside a worker) that dies
// at a given call, and what has to be true once another worker has cleaned up.
#pragma once

#include <functional>
#include <memory>
#include <set>
#include <stop_token>
#include <string>
#include <string_view>

#include <ergon/broker/broker.hpp>

namespace ergon::crash {

/// Told of every job whose enqueue was acknowledged, as soon as it was.
using acknowledged = std::function<void(const std::string& id)>;

/// Puts a job of every fate in (done, retried, out of attempts, cancelled while it runs and before, scheduled, run again, removed,
/// waited for), works them off, looks at them in every way, and leaves. Blocks until all is done, `store` throws, or `dead` is requested.
void live(const std::shared_ptr<broker>& store, const acknowledged& tell, std::stop_token dead = {});

/// Works everything off that `live` left behind. Returns once no job is ready, due, or leased, and nobody else is a worker.
void clean_up(const std::shared_ptr<broker>& store);

/// A job that has lost two workers, so that the next must mark it.
void plant_suspect(const std::shared_ptr<broker>& store, const acknowledged& tell);

/// Fails the running test where an acknowledged job is not in exactly one terminal state, or where anything is in limbo.
void expect_all_ended(const std::shared_ptr<broker>& store, const std::set<std::string>& ids);

}  // namespace ergon::crash
