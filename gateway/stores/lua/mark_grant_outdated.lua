-- Suspends a grant once. No gateway finds it in an index any more; a copy read before has an older policy
-- generation.
--
-- KEYS 1 grant, 2 index by match, 3 events, 4 meta, 5 by time of the expiry notice, then the outboxes of
--      its cards
-- ARGV 1 id, 2 agent, 3 body before, 4 body after, 5 event data, 6 '1' to post a notice with its cards,
--      7 its id in outboxes
-- Returns 1 if it was suspended now.

if redis.call('HGET', KEYS[1], 'body') ~= ARGV[3] then return 0 end
local now = now_ms()
redis.call('HSET', KEYS[1], 'body', ARGV[4])
redis.call('HDEL', KEYS[2], ARGV[1])
redis.call('ZREM', KEYS[5], ARGV[1])
redis.call('HINCRBY', KEYS[1], 'gen', 1)
if ARGV[6] == '1' then redis.call('HINCRBY', KEYS[1], 'notices', 1) end
redis.call('HINCRBY', KEYS[4], 'generation', 1)
event(KEYS[3], 'grant_outdated', now, ARGV[2], '', '0', ARGV[5])
for i = 6, #KEYS do redis.call('ZADD', KEYS[i], now, ARGV[7]) end
return 1
