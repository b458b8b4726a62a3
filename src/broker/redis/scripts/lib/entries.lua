-- uses: fields
-- An entry leaves its stream with the job, and a job that changes hands gets a new one: that it is still there says that it still belongs
-- to whoever was given its id.
local function read(place)
  local id = place:sub(2)
  local found = redis.call('XRANGE', stream(place), id, id)[1]
  return found and found[2]
end

-- The same question without a copy of the payload, for entries that were handed out.
local function owner(place)
  local id = place:sub(2)
  local pending = redis.call('XPENDING', stream(place), GROUP, id, id, 1)[1]
  return pending and pending[2]
end

-- A serial that somebody made up is none.
local function serial_of(job, place)
  local own = get(job, 'i')
  return own and own:match('^%d+[-+]%d+$') or place:sub(2)
end

local function remove(place)
  local id = place:sub(2)
  redis.call('XACK', stream(place), GROUP, id)
  redis.call('XDEL', stream(place), id)
  redis.call('HDEL', NOTES, place)
end

-- Where a test moves time by hand, entries are as old as it says.
local function add(key, job)
  return redis.call('XADD', key, ARGV[1] == '' and '*' or ARGV[1] .. '-*', unpack(job))
end

local function enter(letter, job, serial)
  set(job, 'i', serial)
  local id = add(letter == 'f' and FRONT or READY, job)
  redis.call('HSET', LOC, serial, letter .. id)
  return id
end
