-- uses: safe when_full ends
-- Ends that have something to release or to keep. ARGV, six a job: place, state, ms that the job is kept, result or reason, failures, what
-- they were (both '' where no failure is counted).
-- The entry goes last: should anything stop the script before, the job is still leased and comes round again.
-- Returns for each 1, or 0: not the caller's any more.
local out, failed = {}, 0
for at = 3, #ARGV, 6 do
  local place = ARGV[at]
  local job = read(place)
  if job then
    if ARGV[at + 4] ~= '' then
      set(job, 'a', ARGV[at + 4])
      set(job, 'e', ARGV[at + 5])
      failed = failed + 1
    end
    finish(job, serial_of(job, place), ARGV[at + 1], tonumber(ARGV[at + 2]), ARGV[at + 3])
    remove(place)
  end
  out[#out + 1] = job and 1 or 0
end
count('failed', failed)
return out
