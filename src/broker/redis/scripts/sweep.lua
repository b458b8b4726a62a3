-- uses: safe when_full ends
-- Puts right what no transition leaves behind, but a hand, an eviction or a damaged record can. One bounded step. ARGV: about how many of
-- each kind to look at, then where to go on ('0' at the beginning): places, parked records, own ids, locks, ended jobs, reports.
-- Returns {how many were put right, the six places to go on}. In a healthy partition it finds nothing.
local fixed = 0
local function each(at, key, look)
  local step = redis.call('HSCAN', key, ARGV[at], 'COUNT', ARGV[3])
  for i = 1, #step[2], 2 do
    if look(step[2][i], step[2][i + 1]) then fixed = fixed + 1 end
  end
  return step[1]
end
local function lives(serial) return redis.call('HEXISTS', LOC, serial) == 1 end

local out = {0}
-- A place where nothing is: nothing is left that could run, and it must not stand in the way of another.
out[2] = each(4, LOC, function(serial, place)
  local letter = place:sub(1, 1)
  local there
  if letter == 'r' or letter == 'f' then
    there = redis.call('XRANGE', stream(place), place:sub(2), place:sub(2))[1]
  else
    there = redis.call('HEXISTS', BODY, serial) == 1
  end
  if there then return false end
  redis.call('HDEL', LOC, serial)
  redis.call('ZREM', DUE, serial)
  redis.call('ZREM', AGAIN, serial)
  return true
end)
-- A record that waits for nothing becomes due now: better early than never.
out[3] = each(5, BODY, function(serial)
  local place = redis.call('HGET', LOC, serial)
  if place == 'd' and redis.call('ZSCORE', DUE, serial) then return false end
  if place == 'a' and redis.call('ZSCORE', AGAIN, serial) then return false end
  if place and place ~= 'd' and place ~= 'a' then
    redis.call('HDEL', BODY, serial)
    return true
  end
  redis.call('ZADD', AGAIN, now(), serial)
  redis.call('HSET', LOC, serial, 'a')
  redis.call('PUBLISH', HINTS, 'due')
  return true
end)
out[4] = each(6, IDS, function(own, serial)
  if lives(serial) or redis.call('HEXISTS', TOMB, serial) == 1 then return false end
  redis.call('HDEL', IDS, own)
  return true
end)
out[5] = each(7, UNIQ, function(key, serial)
  if lives(serial) then return false end
  redis.call('HDEL', UNIQ, key)
  redis.call('ZREM', UNIQX, key)
  return true
end)
-- An ended job that nobody would ever forget.
out[6] = each(8, TOMB, function(serial, packed)
  for _, shelf in ipairs({DONE, DEAD, CANCELLED, DISCARDED}) do
    if redis.call('ZSCORE', shelf, serial) then return false end
  end
  local job = unpacked(packed)
  redis.call('ZADD', SHELVES[job and get(job, 's')] or DEAD, now() + 86400000, serial)
  return true
end)
out[7] = each(9, NOTES, function(place)
  local id = place:sub(2)
  if redis.call('XRANGE', stream(place), id, id)[1] then return false end
  redis.call('HDEL', NOTES, place)
  return true
end)
count('repaired', fixed)
out[1] = fixed
return out
