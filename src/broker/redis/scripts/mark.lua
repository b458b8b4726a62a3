-- uses: keys entries
-- A suspect starts now, alone: only a loss after this counts against it. ARGV: place, consumer. Returns 1, or 0: not the caller's any more.
-- XCLAIM takes from anyone, so it asks first.
if owner(ARGV[3]) ~= ARGV[4] then return 0 end
redis.call('XCLAIM', stream(ARGV[3]), GROUP, ARGV[4], 0, ARGV[3]:sub(2), 'RETRYCOUNT', 1000, 'JUSTID')
return 1
