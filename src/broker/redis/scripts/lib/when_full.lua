-- uses: keys
-- A server at maxmemory refuses a script's commands only until its first write. XACK is a write that is never refused, and on an id that
-- cannot exist it changes nothing: after it the script may add before it removes. Enqueues do without: they are meant to be refused.
redis.call('XACK', READY, GROUP, '0-0')
