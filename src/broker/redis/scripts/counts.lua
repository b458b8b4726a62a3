-- uses: handed_out
-- Figures of one queue. Returns {paused, ready, scheduled, retry, active, completed, dead, cancelled, discarded, ms of the oldest
-- ready entry or '', ms of the server's time}.
local active, oldest = 0, nil
for _, key in ipairs({READY, FRONT}) do
  local last, pending = handed_out(key)
  active = active + pending
  local first = redis.call('XRANGE', key, '(' .. last, '+', 'COUNT', 1)[1]
  local ms = first and tonumber(first[1]:match('^%d+'))
  if ms then oldest = math.min(oldest or ms, ms) end
end
return {redis.call('HGET', META, 'paused') or '0', redis.call('XLEN', READY) + redis.call('XLEN', FRONT) - active,
  redis.call('ZCARD', DUE), redis.call('ZCARD', AGAIN), active, redis.call('ZCARD', DONE), redis.call('ZCARD', DEAD),
  redis.call('ZCARD', CANCELLED), redis.call('ZCARD', DISCARDED), oldest and string.format('%.0f', oldest) or '', string.format('%.0f', now())}
