-- Appends an event that changes no request. With a flag it also sets or clears it in meta.
-- KEYS 1 events, 2 meta. ARGV 1 event, 2 agent, 3 data, 4 flag or '', 5 '1' to set it, 6 '1' when it is
-- written also while memory is full.

if ARGV[6] == '1' then even_when_full(KEYS[2]) end
local id = event(KEYS[1], ARGV[1], now_ms(), ARGV[2], '', '0', ARGV[3])
if ARGV[4] ~= '' then
  if ARGV[5] == '1' then redis.call('HSET', KEYS[2], ARGV[4], id)
  else redis.call('HDEL', KEYS[2], ARGV[4]) end
end
return id
