-- uses: entries
-- `d` is scheduled, `a` waits for its next attempt. Tells whoever promotes if nothing else is due before.
local function park(letter, job, serial, due)
  set(job, 'i', serial)
  local zset = letter == 'd' and DUE or AGAIN
  redis.call('HSET', BODY, serial, cmsgpack.pack(job))
  redis.call('ZADD', zset, due, serial)
  redis.call('HSET', LOC, serial, letter)
  if redis.call('ZRANGE', zset, 0, 0)[1] == serial then redis.call('PUBLISH', HINTS, 'due') end
end

local function unpark(letter, serial)
  redis.call('HDEL', BODY, serial)
  redis.call('ZREM', letter == 'd' and DUE or AGAIN, serial)
end
