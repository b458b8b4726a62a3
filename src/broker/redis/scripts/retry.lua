-- uses: safe when_full parked stats
-- Jobs that are to run again: failed, or handed back. ARGV, five a job: place, ms of delay ('0' none), '1' if the attempt counts as failed,
-- failures, what they were (both '' where nothing is counted).
-- A failed one without a delay goes to the end of the queue, one that is handed back to the front: it has waited already. The new entry makes
-- the old id void, for the old owner too.
-- Returns for each 1, or 0: not the caller's any more.
local out, failed, fronted = {}, 0, false
for at = 3, #ARGV, 5 do
  local place, delay, counts = ARGV[at], tonumber(ARGV[at + 1]), ARGV[at + 2] == '1'
  local job = read(place)
  if job then
    local serial = serial_of(job, place)
    if counts then
      set(job, 'a', ARGV[at + 3])
      set(job, 'e', ARGV[at + 4])
      -- An attempt that came to an end did not kill its worker.
      set(job, 'x', nil)
      set(job, 'y', nil)
      failed = failed + 1
    end
    if delay > 0 then
      park('a', job, serial, now() + delay)
    else
      enter(counts and 'r' or 'f', job, serial)
      fronted = fronted or not counts
    end
    remove(place)
  end
  out[#out + 1] = job and 1 or 0
end
count('failed', failed)
if fronted then redis.call('PUBLISH', HINTS, 'front ' .. FRONT) end
return out
