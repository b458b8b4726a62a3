-- uses: keys
-- Lua does not roll back. A key of the wrong type must stop a script before its first write, so every key is read once with a command
-- of its type. It costs a few microseconds a call, not a job.
redis.call('XLEN', READY) redis.call('XLEN', FRONT)
redis.call('ZCARD', DUE) redis.call('ZCARD', AGAIN) redis.call('ZCARD', UNIQX)
redis.call('ZCARD', DONE) redis.call('ZCARD', DEAD) redis.call('ZCARD', CANCELLED) redis.call('ZCARD', DISCARDED)
redis.call('HLEN', BODY) redis.call('HLEN', LOC) redis.call('HLEN', IDS) redis.call('HLEN', TOMB)
redis.call('HLEN', UNIQ) redis.call('HLEN', STATS) redis.call('HLEN', META) redis.call('HLEN', NOTES)
