-- uses: safe when_full parked ends
-- Due jobs to :ready. ARGV: how many at most, ms that a dead job is kept. Any number of promoters may run: whoever comes second finds nothing due.
-- A record that nobody can read goes to the dead letters as it is.
-- Returns {how many were due, ms until the next is due or '' if there is none}: call again at once while as many were due as were asked for.
local most, taken, next_due = tonumber(ARGV[3]), 0, nil
for letter, zset in pairs({d = DUE, a = AGAIN}) do
  local due = redis.call('ZRANGEBYSCORE', zset, '-inf', now(), 'LIMIT', 0, most - taken)
  for _, serial in ipairs(due) do
    local packed = redis.call('HGET', BODY, serial)
    local job = packed and unpacked(packed)
    if job then
      enter('r', job, serial)
    elseif packed then
      finish({'r', packed}, serial, 'dead', tonumber(ARGV[4]), 'what is stored is no job')
    else
      redis.call('HDEL', LOC, serial)
      count('orphans', 1)
    end
    unpark(letter, serial)
  end
  taken = taken + #due
  local first = redis.call('ZRANGE', zset, 0, 0, 'WITHSCORES')[2]
  if first then next_due = math.min(next_due or math.huge, tonumber(first) - now()) end
end
return {taken, next_due and string.format('%.0f', next_due) or ''}
