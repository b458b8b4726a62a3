-- uses: keys
-- The live job that is in the way of a new one with this own id or unique key ('' for none).
local function in_the_way(own, key)
  local serial = own ~= '' and redis.call('HGET', IDS, own)
  if serial and redis.call('HEXISTS', LOC, serial) == 1 then return serial end
  serial = key ~= '' and redis.call('HGET', UNIQ, key)
  if serial and redis.call('HEXISTS', LOC, serial) == 1 then
    local ends = redis.call('ZSCORE', UNIQX, key)
    if ends and tonumber(ends) > now() then return serial end
  end
end

local function lock(own, key, span, serial)
  if own ~= '' then redis.call('HSET', IDS, own, serial) end
  if key ~= '' then
    redis.call('HSET', UNIQ, key, serial)
    redis.call('ZADD', UNIQX, now() + span, key)
  end
end

-- A new life of a job that is more than an entry: the time of its birth and a number that no other has.
local function new_serial()
  return string.format('%.0f+%.0f', now(), redis.call('HINCRBY', META, 'serial', 1))
end
