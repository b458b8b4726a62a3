-- uses: clock
-- Every script of a partition declares the same keys in the same order; no key name is ever built here.
local READY, FRONT, DUE, AGAIN, BODY, LOC, IDS = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7]
local TOMB, DONE, DEAD, CANCELLED, DISCARDED = KEYS[8], KEYS[9], KEYS[10], KEYS[11], KEYS[12]
local UNIQ, UNIQX, STATS, META, NOTES = KEYS[13], KEYS[14], KEYS[15], KEYS[16], KEYS[17]
local GROUP, HINTS = 'workers', ARGV[2]

-- A place is a letter, and behind it the entry's id where it is a stream.
local function stream(place) return place:sub(1, 1) == 'f' and FRONT or READY end
