-- Appends a seal if the chain still ends where it was read, and counts the sealed events.
--
-- KEYS 1 seals, 2 meta, 3 counts. ARGV 1 head it builds on, 2 new head, 3 last event covered,
-- 4 seal JSON, then each event kind and its number.
-- Returns 1, or 0 if another replica was faster.

local head = redis.call('HGET', KEYS[2], 'head') or string.rep('0', 64)
if head ~= ARGV[1] then return 0 end
redis.call('XADD', KEYS[1], '*', 'seal', ARGV[4])
redis.call('HSET', KEYS[2], 'head', ARGV[2], 'sealed', ARGV[3])
for i = 5, #ARGV, 2 do redis.call('HINCRBY', KEYS[3], ARGV[i], ARGV[i + 1]) end
return 1
