-- A worker lives. KEYS: the beats, the workers, a key that there never is. ARGV: worker, its beat, how it presents itself.
-- As in lib/when_full.lua: after a write that is never refused, nothing is. A worker that could not beat would lose what it holds.
redis.call('HLEN', KEYS[2])
redis.call('XACK', KEYS[3], 'workers', '0-0')
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
redis.call('HSETNX', KEYS[2], ARGV[1], ARGV[3])
return 1
