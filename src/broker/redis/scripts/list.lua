-- uses: handed_out fields
-- Jobs of one section in steps. ARGV: section ('r', 'f', 'd', 'a' or a state that ended), where to go on ('' at the beginning), the most
-- jobs, about how many bytes, '1' for jobs that are ready only, '2' for those that are active only. Changes nothing.
-- Returns {where to go on or '' at the end, then for each job {serial or entry id, holder or '', ms when it is due or '', note, fields}}.
local section, from, most, room, only = ARGV[3], ARGV[4], tonumber(ARGV[5]), tonumber(ARGV[6]), ARGV[7]
local out = {''}
local function give(name, holder, due, note, job)
  out[#out + 1] = {name, holder, due, note, job}
  room = room - #(get(job, 'r') or '') - #(get(job, 'w') or '') - 100
  return room > 0
end

if section == 'r' or section == 'f' then
  local key = section == 'r' and READY or FRONT
  local last = handed_out(key)
  local place = from == '' and '-' or '(' .. from
  if only == '2' then
    local pending = redis.call('XPENDING', key, GROUP, place, '+', most)
    for at, p in ipairs(pending) do
      local entry = redis.call('XRANGE', key, p[1], p[1])[1]
      local goes_on = not entry or give(p[1], p[2], '', redis.call('HGET', NOTES, section .. p[1]) or '', entry[2])
      if at == most or not goes_on then out[1] = p[1] break end
    end
    return out
  end
  local function before(a, b)
    local ams, aseq = a:match('^(%d+)%-(%d+)$')
    local bms, bseq = b:match('^(%d+)%-(%d+)$')
    if ams ~= bms then return tonumber(ams) < tonumber(bms) end
    if #aseq ~= #bseq then return #aseq < #bseq end
    return tonumber(aseq) < tonumber(bseq)
  end
  if only == '1' and (from == '' or before(from, last)) then place = '(' .. last end
  local count = 0
  while count < most do
    -- In small steps: what a large payload costs is known only once it has been read.
    local entries = redis.call('XRANGE', key, place, '+', 'COUNT', math.min(most - count, room > 65536 and 100 or 10))
    for _, entry in ipairs(entries) do
      local id, holder = entry[1], ''
      if not before(last, id) then
        local pending = redis.call('XPENDING', key, GROUP, id, id, 1)[1]
        holder = pending and pending[2] or ''
      end
      count = count + 1
      local goes_on = give(id, holder, '', holder ~= '' and redis.call('HGET', NOTES, section .. id) or '', entry[2])
      if count == most or not goes_on then
        out[1] = id
        return out
      end
      place = '(' .. id
    end
    if #entries == 0 then return out end
  end
  return out
end

local zset = ({d = DUE, a = AGAIN, completed = DONE, dead = DEAD, cancelled = CANCELLED, discarded = DISCARDED})[section]
local bodies = (section == 'd' or section == 'a') and BODY or TOMB
local rank = 0
if from ~= '' then
  -- It goes on behind a score and a member, whether they are still there or not: ranks move as jobs come and go.
  local score, member = from:match('^(%-?%d+) (.*)$')
  local function bytes_before(a, b)
    for at = 1, math.min(#a, #b) do
      if a:byte(at) ~= b:byte(at) then return a:byte(at) < b:byte(at) end
    end
    return #a < #b
  end
  rank = redis.call('ZCOUNT', zset, '-inf', '(' .. score)
  local high = redis.call('ZCOUNT', zset, '-inf', score)
  while rank < high do
    local middle = math.floor((rank + high) / 2)
    if bytes_before(member, redis.call('ZRANGE', zset, middle, middle)[1]) then high = middle else rank = middle + 1 end
  end
end
local found = redis.call('ZRANGE', zset, rank, rank + most - 1, 'WITHSCORES')
for at = 1, #found, 2 do
  local packed = redis.call('HGET', bodies, found[at])
  local job = packed and unpacked(packed)
  local goes_on = not job or give(found[at], '', found[at + 1], '', job)
  if at == 2 * most - 1 or not goes_on then
    out[1] = found[at + 1] .. ' ' .. found[at]
    break
  end
end
return out
