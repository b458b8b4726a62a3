-- uses: keys locate
-- One job. ARGV: serial, own id (one of them ''). Changes nothing.
-- Returns {serial, place, the consumer that holds it or '', ms when it is due or '', what its handler reported or '', its fields}; an empty
-- list where there is no such job.
local place, serial = locate(ARGV[3], ARGV[4])
local job = place and job_in(place, serial)
if not job then return {} end
local letter = place:sub(1, 1)
local holder, due, note = '', '', ''
if letter == 'r' or letter == 'f' then
  holder = owner(place) or ''
  note = redis.call('HGET', NOTES, place) or ''
elseif letter == 'd' or letter == 'a' then
  due = redis.call('ZSCORE', letter == 'd' and DUE or AGAIN, serial) or ''
end
return {serial, place, holder, due, note, job}
