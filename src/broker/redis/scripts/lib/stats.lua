-- uses: keys
-- By hours since 1970, in one hash: a script cannot declare a key that depends on the server's clock.
local function count(name, n)
  if n ~= 0 then redis.call('HINCRBY', STATS, math.floor(now() / 3600000) .. ':' .. name, n) end
end
