-- Appends an event that changes no request. With a flag, also sets or clears the flag in meta. If meta was
-- lost, marks it again, with a policy generation that no gateway remembers.
--
-- KEYS 1 events, 2 meta. ARGV 1 event, 2 agent, 3 data, 4 flag or '', 5 '1' to set it, 6 '1' to write even
-- if memory is full, 7 the schema version with a flag.

if ARGV[6] == '1' then even_when_full(KEYS[2]) end
local id = event(KEYS[1], ARGV[1], now_ms(), ARGV[2], '', '0', ARGV[3])
if ARGV[4] ~= '' then
  if ARGV[5] == '1' then redis.call('HSET', KEYS[2], ARGV[4], id)
  else redis.call('HDEL', KEYS[2], ARGV[4]) end
  if redis.call('HSETNX', KEYS[2], 'schema', ARGV[7]) == 1 then
    redis.call('HSET', KEYS[2], 'generation', digits(now_ms()))
  end
end
return id
