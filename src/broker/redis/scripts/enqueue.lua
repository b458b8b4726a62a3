-- uses: safe parked locks locate stats
-- Jobs of which at least one needs more than a place in the stream; all of them, or, where the script fails, none.
-- ARGV, six a job: record, own id, ms of delay or `@` and the ms of a time ('' now), unique key, ms that it locks, ms that the result is
-- kept ('0' not at all).
-- Returns for each {1, its serial}, or {0, the serial of the job that is in the way, that job's own id or ''}.
-- Not idempotent: a job that has ended in the meantime leaves nothing to recognise a repeated call by.
local out, made = {}, 0
for at = 3, #ARGV, 6 do
  local record, own, due, key, span, keeps = ARGV[at], ARGV[at + 1], ARGV[at + 2], ARGV[at + 3], tonumber(ARGV[at + 4]), ARGV[at + 5]
  local holder = in_the_way(own, key)
  if holder then
    local found = job_in(locate(holder, ''))
    out[#out + 1] = {'0', holder, found and get(found, 'c') or ''}
  else
    local job = {'r', record}
    if keeps ~= '0' then set(job, 'k', keeps) end
    local when = due ~= '' and (due:sub(1, 1) == '@' and tonumber(due:sub(2)) or now() + tonumber(due)) or 0
    if own == '' and key == '' and when <= now() then
      out[#out + 1] = {'1', add(READY, job)}
    else
      local serial = new_serial()
      if own ~= '' then set(job, 'c', own) end
      if key ~= '' then
        set(job, 'u', key)
        set(job, 'U', ARGV[at + 4])
      end
      lock(own, key, span, serial)
      if when > now() then park('d', job, serial, when) else enter('r', job, serial) end
      out[#out + 1] = {'1', serial}
    end
    made = made + 1
  end
end
count('enqueued', made)
return out
