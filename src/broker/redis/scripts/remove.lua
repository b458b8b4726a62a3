-- uses: safe when_full ends locate parked
-- Forgets a job that is not active. ARGV: serial, own id (one of them '').
-- Returns '' if it is gone now, 'active', or nothing where there is no such job.
local place, serial = locate(ARGV[3], ARGV[4])
if not place then return false end
local letter, job = place:sub(1, 1), job_in(place, serial) or {}
if letter == 't' then
  forget(SHELVES[get(job, 's')] or DEAD, serial)
  return ''
end
local in_stream = letter == 'r' or letter == 'f'
if in_stream and owner(place) then return 'active' end
finish(job, serial, 'discarded', 0, 'removed')
if in_stream then remove(place) else unpark(letter, serial) end
return ''
