-- uses: keys entries
-- What a handler reports. ARGV: place, consumer, text. Returns 1, or 0: not the caller's any more.
if owner(ARGV[3]) ~= ARGV[4] then return 0 end
redis.call('HSET', NOTES, ARGV[3], ARGV[5])
return 1
