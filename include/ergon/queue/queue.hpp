// The whole of the queue: put jobs in, have them done, look at them.
#pragma once

#include <ergon/queue/client.hpp>
#include <ergon/queue/job_context.hpp>
#include <ergon/queue/job_options.hpp>
#include <ergon/queue/middleware.hpp>
#include <ergon/queue/outcome.hpp>
#include <ergon/queue/retry_policy.hpp>
#include <ergon/queue/worker.hpp>
