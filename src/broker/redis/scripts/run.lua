-- uses: safe ends locate parked locks
-- Makes a job ready now, with a full budget; one that has ended starts a new life. ARGV: serial, own id (one of them '').
-- Returns {'1', serial, own id}; {'0', the state that is in the way}; {'2', serial and own id of the live job that is in the way}; an empty
-- list where there is no such job. A repeated call finds the job ready, or gone.
local place, serial = locate(ARGV[3], ARGV[4])
local job = place and job_in(place, serial)
if not job then return {} end
local letter, own, key = place:sub(1, 1), get(job, 'c') or '', get(job, 'u') or ''
if letter == 'r' or letter == 'f' then return {'0', owner(place) and 'active' or 'ready'} end
local state = letter == 't' and get(job, 's')
if state == 'discarded' then return {'0', state} end
for _, name in ipairs({'a', 'x', 'y', 's', 'w', 'z'}) do set(job, name, nil) end
if letter ~= 't' then
  enter('r', job, serial)
  unpark(letter, serial)
  return {'1', serial, own}
end
local holder = in_the_way(own, key)
if holder then
  local found = job_in(locate(holder, ''))
  return {'2', holder, found and get(found, 'c') or ''}
end
local life = new_serial()
lock(own, key, tonumber(get(job, 'U') or 0), life)
enter('r', job, life)
redis.call('HDEL', TOMB, serial)
redis.call('ZREM', SHELVES[state], serial)
count('enqueued', 1)
return {'1', life, own}
