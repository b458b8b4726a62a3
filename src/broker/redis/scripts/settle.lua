-- uses: clock
-- Plain completions of one turn. KEYS: the stream, the statistics. ARGV: the time if a test brings it, entry ids.
-- Acknowledging first is check and settlement in one command for the whole batch, and it is what a full server still accepts. A job that
-- has anything to release or to keep does not belong here: see `finish`.
-- The one thing to check first: statistics of the wrong type would stop the script between the acknowledgement and the count.
-- Returns the positions (from 1) of those that were not the caller's any more.
redis.call('HLEN', KEYS[2])
local n = redis.call('XACK', KEYS[1], 'workers', unpack(ARGV, 2))
local lost = {}
if n == #ARGV - 1 then
  redis.call('XDEL', KEYS[1], unpack(ARGV, 2))
else
  -- An entry leaves with the job: only that of a job that was the caller's until now is still there.
  for i = 2, #ARGV do
    if redis.call('XDEL', KEYS[1], ARGV[i]) == 0 then lost[#lost + 1] = i - 1 end
  end
end
if n > 0 then redis.call('HINCRBY', KEYS[2], math.floor(now() / 3600000) .. ':completed', n) end
return lost
