-- uses: entries stats
local SHELVES = {completed = DONE, dead = DEAD, cancelled = CANCELLED, discarded = DISCARDED}

-- What every end releases, in the same step. Only the holder releases a lock: its time may have run out, and another job may have it.
local function let_go(job, serial, is_kept)
  local own, key = get(job, 'c'), get(job, 'u')
  if key and redis.call('HGET', UNIQ, key) == serial then
    redis.call('HDEL', UNIQ, key)
    redis.call('ZREM', UNIQX, key)
  end
  if own and not is_kept and redis.call('HGET', IDS, own) == serial then redis.call('HDEL', IDS, own) end
  redis.call('HDEL', LOC, serial)
end

-- Takes a job from the living: it is kept for `kept` ms if that is not nought. Whoever waits for it is told. The caller takes it from where
-- it was, after this.
local function finish(job, serial, state, kept, text)
  local tells = get(job, 'k')
  if kept > 0 then
    set(job, 'i', serial)
    set(job, 's', state)
    set(job, 'w', text)
    set(job, 'z', string.format('%.0f', now()))
    redis.call('HSET', TOMB, serial, cmsgpack.pack(job))
    redis.call('ZADD', SHELVES[state], now() + kept, serial)
  end
  let_go(job, serial, kept > 0)
  count(state, 1)
  if tells then redis.call('PUBLISH', READY .. ':end:' .. serial, state) end
end

-- Forgets an ended job.
local function forget(shelf, serial)
  local packed = redis.call('HGET', TOMB, serial)
  local job = packed and unpacked(packed)
  local own = job and get(job, 'c')
  if own and redis.call('HGET', IDS, own) == serial then redis.call('HDEL', IDS, own) end
  redis.call('HDEL', TOMB, serial)
  redis.call('ZREM', shelf, serial)
end
