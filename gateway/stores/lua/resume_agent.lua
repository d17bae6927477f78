-- Ends the cool-down of an agent. Returns 1 if there was one.
--
-- KEYS 1 the agent's load, 2 breakers, 3 events, then prefixes 4 outboxes and 5 records
-- ARGV 1 agent, 2 event data

local load = redis.call('HMGET', KEYS[1], 'until', 'last')
local paused, last = load[1], load[2]
redis.call('HDEL', KEYS[1], 'until', 'last', 'denied')
redis.call('HDEL', KEYS[2], ARGV[1])
local now = now_ms()
if not paused or now >= tonumber(paused) then return 0 end
event(KEYS[3], 'breaker_lifted', now, ARGV[1], '', '0', ARGV[2])
recount(KEYS[1], KEYS[4], last and redis.call('HGET', KEYS[5] .. last, 'queues'), ARGV[1], now)
return 1
