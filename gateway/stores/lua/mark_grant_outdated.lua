-- Suspends a grant once, or ends that. No gateway finds a suspended grant in an index any more; a copy read
-- before has an older policy generation.
--
-- KEYS 1 grant, 2 index by match, 3 events, 4 meta, 5 by time of the expiry notice, then the outboxes of
--      its cards
-- ARGV 1 id, 2 agent, 3 body before, 4 body after, 5 event data, 6 '1' to post a notice with its cards,
--      7 its id in outboxes, 8 '1' to end the suspension
-- Returns 1 if it was changed now.

if redis.call('HGET', KEYS[1], 'body') ~= ARGV[3] then return 0 end
local now = now_ms()
redis.call('HSET', KEYS[1], 'body', ARGV[4])
if ARGV[8] == '1' then
  redis.call('HSET', KEYS[2], ARGV[1], ARGV[4])
else
  redis.call('HDEL', KEYS[2], ARGV[1])
  redis.call('ZREM', KEYS[5], ARGV[1])
end
redis.call('HINCRBY', KEYS[1], 'gen', 1)
if ARGV[6] == '1' then redis.call('HINCRBY', KEYS[1], 'notices', 1) end
redis.call('HINCRBY', KEYS[4], 'generation', 1)
event(KEYS[3], ARGV[8] == '1' and 'grant_resumed' or 'grant_outdated', now, ARGV[2], '', '0', ARGV[5])
for i = 6, #KEYS do redis.call('ZADD', KEYS[i], now, ARGV[7]) end
return 1
