-- The number of a queue, given at its first use. KEYS: the list of queues, a key that there never is. ARGV: name, the number that the caller knows it by ('' none): after a
-- flush a queue gets its old one again, if no other has taken it.
local known = redis.call('HGET', KEYS[1], ARGV[1])
if known then return tonumber(known) end
-- As in lib/when_full.lua.
redis.call('XACK', KEYS[2], 'workers', '0-0')
local taken, highest = {}, 0
local all = redis.call('HVALS', KEYS[1])
for _, number in ipairs(all) do
  taken[number] = true
  highest = math.max(highest, tonumber(number))
end
local number = ARGV[2] ~= '' and not taken[ARGV[2]] and ARGV[2] or tostring(highest + 1)
redis.call('HSET', KEYS[1], ARGV[1], number)
return tonumber(number)
