-- uses: keys
-- Entries are handed out in their order: what lies behind the last one that was, is ready. Returns its id and how many are pending.
local function handed_out(key)
  for _, group in ipairs(redis.call('XINFO', 'GROUPS', key)) do
    local about = {}
    for at = 1, #group, 2 do about[group[at]] = group[at + 1] end
    if about.name == GROUP then return about['last-delivered-id'], about.pending end
  end
  return '0-0', 0
end
