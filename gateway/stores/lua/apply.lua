-- Replaces the policy, if nobody else did since it was read.
-- KEYS 1 policy, 2 meta, 3 events. ARGV 1 generation read, 2 policy JSON, 3 event data.
-- Returns the new generation, or -1.

local generation = redis.call('HGET', KEYS[2], 'generation') or '0'
if generation ~= ARGV[1] then return -1 end
redis.call('SET', KEYS[1], ARGV[2])
local new = redis.call('HINCRBY', KEYS[2], 'generation', 1)
event(KEYS[3], 'policy_applied', now_ms(), '', '', '0', ARGV[3])
return new
