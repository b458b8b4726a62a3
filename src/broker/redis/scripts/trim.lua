-- uses: safe when_full ends
-- Lets go of what was kept long enough. ARGV: the most of each kind, how many dead jobs are kept, how many cancelled and how many
-- discarded ones, hours of statistics.
-- Returns {how many went, 1 if there may be more, ms until the next one's time is up or ''}.
local most, went, more, next_end = tonumber(ARGV[3]), 0, 0, nil
local bounds = {[DEAD] = tonumber(ARGV[4]), [CANCELLED] = tonumber(ARGV[5]), [DISCARDED] = tonumber(ARGV[5])}
for _, shelf in ipairs({DONE, DEAD, CANCELLED, DISCARDED}) do
  local old = redis.call('ZRANGEBYSCORE', shelf, '-inf', now(), 'LIMIT', 0, most)
  for _, serial in ipairs(old) do forget(shelf, serial) end
  local over = bounds[shelf] and math.min(redis.call('ZCARD', shelf) - bounds[shelf], most) or 0
  if over > 0 then
    for _, serial in ipairs(redis.call('ZRANGE', shelf, 0, over - 1)) do forget(shelf, serial) end
  end
  went = went + #old + math.max(over, 0)
  if #old == most or over == most then more = 1 end
  local first = redis.call('ZRANGE', shelf, 0, 0, 'WITHSCORES')[2]
  if first then next_end = math.min(next_end or math.huge, tonumber(first) - now()) end
end
-- A lock whose time is up is nobody's, but its value takes room.
local keys = redis.call('ZRANGEBYSCORE', UNIQX, '-inf', now(), 'LIMIT', 0, most)
for _, key in ipairs(keys) do
  redis.call('HDEL', UNIQ, key)
  redis.call('ZREM', UNIQX, key)
end
if #keys == most then more = 1 end
local oldest = math.floor(now() / 3600000) - tonumber(ARGV[6])
for _, field in ipairs(redis.call('HKEYS', STATS)) do
  local hour = tonumber(field:match('^%d+'))
  if not hour or hour < oldest then redis.call('HDEL', STATS, field) end
end
count('trimmed', went)
return {went, more, next_end and string.format('%.0f', next_end) or ''}
