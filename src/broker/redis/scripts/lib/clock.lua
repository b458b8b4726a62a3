-- Time is the server's, never a worker's: clocks of workers may be an hour apart. Asked once a call. Only where a test moves time by hand the
-- caller brings it. Every script but `settle` begins its arguments with it and with the name of the channel for hints.
local clock = ARGV[1] ~= '' and tonumber(ARGV[1])
local function now()
  if not clock then
    local t = redis.call('TIME')
    clock = t[1] * 1000 + math.floor(t[2] / 1000)
  end
  return clock
end
