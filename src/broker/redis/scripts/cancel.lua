-- uses: safe when_full ends locate parked
-- ARGV: serial, own id (one of them ''), ms that a trace is kept. Whoever has it in hand is told to look.
-- Returns {place, state it was in}; {'t', the state it ended in}; an empty list where there is no such job.
local place, serial = locate(ARGV[3], ARGV[4])
local job = place and job_in(place, serial)
if not job then return {} end
local letter = place:sub(1, 1)
if letter == 't' then return {'t', get(job, 's')} end
local was, holder = letter == 'd' and 'scheduled' or 'retry', nil
if letter == 'r' or letter == 'f' then
  holder = owner(place)
  was = holder and 'active' or 'ready'
end
finish(job, serial, 'cancelled', math.max(tonumber(ARGV[5]), tonumber(get(job, 'k') or 0)), 'cancelled')
if letter == 'r' or letter == 'f' then remove(place) else unpark(letter, serial) end
if holder then redis.call('PUBLISH', HINTS, 'look ' .. holder) end
return {place, was}
