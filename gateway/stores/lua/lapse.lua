-- Forgets a process whose lease has run out, and tells what it waited for.
-- KEYS 1 processes, 2 what it waits for. ARGV 1 agent and process as in KEYS[1].

local lease = redis.call('ZSCORE', KEYS[1], ARGV[1])
if lease and tonumber(lease) > now_ms() then return {} end
local ids = redis.call('SMEMBERS', KEYS[2])
redis.call('ZREM', KEYS[1], ARGV[1])
redis.call('DEL', KEYS[2])
return ids
