-- uses: when_full
-- Makes the groups of a queue's streams, where they are not there. What a stream holds already will be handed out.
for _, key in ipairs({READY, FRONT}) do
  local made = redis.pcall('XGROUP', 'CREATE', key, GROUP, '0', 'MKSTREAM')
  if made.err and not made.err:find('BUSYGROUP', 1, true) then return made end
end
return 1
