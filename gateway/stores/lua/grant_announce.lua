-- Sets a field of an active grant once, for a notice. The second caller finds it set. Does not change what
-- the grant decides.
--
-- KEYS 1 grant, 2 events, 3 by time of the expiry notice, then the outboxes of its cards
-- ARGV 1 id, 2 agent, 3 field, 4 its value before or '', 5 after or '', 6 event, 7 event data,
--      8 '1' to post a notice with its cards, 9 its id in outboxes
-- Returns 1 if it was set now.

if redis.call('HEXISTS', KEYS[1], 'body') == 0 then return 0 end
if (redis.call('HGET', KEYS[1], ARGV[3]) or '') ~= ARGV[4] then return 0 end
local now = now_ms()
redis.call('HSET', KEYS[1], ARGV[3], ARGV[5])
redis.call('HINCRBY', KEYS[1], 'gen', 1)
if ARGV[8] == '1' then
  redis.call('HINCRBY', KEYS[1], 'notices', 1)
  redis.call('ZREM', KEYS[3], ARGV[1])
end
event(KEYS[2], ARGV[6], now, ARGV[2], '', '0', ARGV[7])
for i = 4, #KEYS do redis.call('ZADD', KEYS[i], now, ARGV[9]) end
return 1
