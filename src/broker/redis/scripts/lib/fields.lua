-- uses: keys
-- A job is a flat list of fields and their values, all texts: an entry of a stream, or the same packed where it is parked or has ended. Fields
-- that a script does not know it carries along, which is what lets a newer format pass through. The known ones:
--   r  the record: kind, payload, options; written by clients, never changed, never read here
--   i  the serial of this life; an entry without it is a plain job, and its serial is the id of that entry
--   c  an id of its own;  u, U  the unique key and for how many ms it locks;  k  for how many ms the result is kept
--   a  failures that counted;  e  what they were;  x  workers lost;  y  of these, while it ran alone
--   s  how it ended;  w  its result or the reason;  z  when it ended (ended jobs only)
local function get(job, name)
  for at = 1, #job, 2 do
    if job[at] == name then return job[at + 1] end
  end
end

local function set(job, name, value)
  for at = 1, #job, 2 do
    if job[at] == name then
      if value ~= nil then job[at + 1] = value return end
      table.remove(job, at + 1)
      table.remove(job, at)
      return
    end
  end
  if value ~= nil then
    job[#job + 1] = name
    job[#job + 1] = value
  end
end

-- Nothing, where it cannot be read: what one job is must not stop the script that belongs to another.
local function unpacked(packed)
  local ok, job = pcall(cmsgpack.unpack, packed)
  if not ok or type(job) ~= 'table' or #job < 2 or #job % 2 ~= 0 then return nil end
  for at = 1, #job do
    if type(job[at]) ~= 'string' then return nil end
  end
  return job
end
