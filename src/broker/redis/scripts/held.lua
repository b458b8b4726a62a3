-- uses: keys
-- What the store says that a consumer holds: the truth about leases, read with every heartbeat. Changes nothing. ARGV: consumer, the most
-- entries a stream.
-- Returns {ms of the server's time, '1' if the queue is paused, entry ids of :ready, of :front}.
local out = {string.format('%.0f', now()), redis.call('HGET', META, 'paused') or '0'}
for _, key in ipairs({READY, FRONT}) do
  local ids = {}
  for _, pending in ipairs(redis.call('XPENDING', key, GROUP, '-', '+', ARGV[4], ARGV[3])) do ids[#ids + 1] = pending[1] end
  out[#out + 1] = ids
end
return out
