-- uses: entries
-- Of a serial, or of the youngest life of an own id: its place and its serial. `t` is the tomb. Nothing, if there is no such job.
local function locate(serial, own)
  if own ~= '' then
    serial = redis.call('HGET', IDS, own)
    if not serial then return nil end
  end
  local place = redis.call('HGET', LOC, serial)
  if place then return place, serial end
  if redis.call('HEXISTS', TOMB, serial) == 1 then return 't', serial end
  if serial:match('^%d+%-%d+$') then
    local found = redis.call('XRANGE', READY, serial, serial)[1]
    if found and not get(found[2], 'i') then return 'r' .. serial, serial end
  end
end

-- The job in a place that `locate` gave. Nothing, where it is gone or damaged.
local function job_in(place, serial)
  local letter = place:sub(1, 1)
  if letter == 'r' or letter == 'f' then return read(place) end
  local packed = redis.call('HGET', letter == 't' and TOMB or BODY, serial)
  return packed and unpacked(packed)
end
