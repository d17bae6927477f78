-- Lets an agent ask again whom people denied too often. Returns 1 when it was paused.
-- KEYS 1 the agent's load, 2 breakers, 3 events. ARGV 1 agent, 2 event data.

local paused = redis.call('HGET', KEYS[1], 'until')
redis.call('HDEL', KEYS[1], 'until', 'denied')
redis.call('HDEL', KEYS[2], ARGV[1])
local now = now_ms()
if not paused or now >= tonumber(paused) then return 0 end
event(KEYS[3], 'breaker_lifted', now, ARGV[1], '', '0', ARGV[2])
return 1
