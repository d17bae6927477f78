-- Drops the oldest entry of an ingress stream unread, because it is too large. The stream's size shows
-- whether another replica already dropped it.
--
-- KEYS 1 ingress, 2 events. ARGV 1 minimum bytes of the stream, 2 agent, 3 event data. Returns 1 if dropped.

local bytes = redis.call('MEMORY', 'USAGE', KEYS[1], 'SAMPLES', '0')
if not bytes or bytes < tonumber(ARGV[1]) then return 0 end
local length = redis.call('XLEN', KEYS[1])
redis.call('XTRIM', KEYS[1], 'MAXLEN', length - 1)
if length == 1 then redis.call('DEL', KEYS[1]) end
event(KEYS[2], 'refused', now_ms(), ARGV[2], '', '0', ARGV[3])
return 1
