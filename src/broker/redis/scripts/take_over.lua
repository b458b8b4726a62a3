-- uses: safe when_full ends
-- Takes jobs from a consumer: one that is lost, which is counted, or one that leaves. ARGV: consumer, '1' if it is lost, the most jobs,
-- losses alone that bury, ms that a dead job is kept. Deletes the consumer once it holds nothing: XGROUP DELCONSUMER would forget, for
-- ever, what it still holds.
-- A delivery count of 1000 and more is the mark that `mark` sets.
-- Returns {jobs moved, jobs buried, 1 if the consumer is gone}.
local function failure(worker, text)
  local function sized(bytes)
    local n, head = #bytes, ''
    while n >= 128 do
      head = head .. string.char(n % 128 + 128)
      n = math.floor(n / 128)
    end
    return head .. string.char(n) .. bytes
  end
  return struct.pack('<i8', now() * 1000000) .. sized(worker) .. sized(text)
end

local who, is_lost, most = ARGV[3], ARGV[4] == '1', tonumber(ARGV[5])
local moved, buried, ghosts = 0, 0, 0
for letter, key in pairs({r = READY, f = FRONT}) do
  for _, pending in ipairs(redis.call('XPENDING', key, GROUP, '-', '+', most, who)) do
    local place = letter .. pending[1]
    local job = read(place)
    if not job then
      -- Trimmed by somebody's hand: nothing is left to run.
      redis.call('XACK', key, GROUP, pending[1])
      ghosts = ghosts + 1
    else
      local serial = serial_of(job, place)
      local alone = tonumber(get(job, 'y') or 0)
      if is_lost then
        local losses = tonumber(get(job, 'x') or 0) + 1
        if pending[4] >= 1000 then alone = alone + 1 end
        set(job, 'x', tostring(losses))
        if alone > 0 then set(job, 'y', tostring(alone)) end
      end
      if is_lost and alone >= tonumber(ARGV[6]) then
        local why = 'its worker was lost ' .. get(job, 'x') .. ' times with this job, ' .. alone .. ' of them while it ran alone'
        set(job, 'e', (get(job, 'e') or '') .. failure(who, why))
        finish(job, serial, 'dead', math.max(tonumber(ARGV[7]), tonumber(get(job, 'k') or 0)), why)
        buried = buried + 1
      else
        enter('f', job, serial)
        moved = moved + 1
      end
      remove(place)
    end
  end
end
if is_lost then count('reclaimed', moved + buried) end
count('ghosts', ghosts)
if moved + buried > 0 then redis.call('PUBLISH', HINTS, 'look ' .. who) end
if moved > 0 then redis.call('PUBLISH', HINTS, 'front ' .. FRONT) end
local gone = 1
for _, key in ipairs({READY, FRONT}) do
  if redis.call('XPENDING', key, GROUP, '-', '+', 1, who)[1] then
    gone = 0
  else
    redis.call('XGROUP', 'DELCONSUMER', key, GROUP, who)
  end
end
return {moved, buried, gone}
