-- Takes or renews a claim, even if memory is full: revoking an agent that filled it needs a claim.
--
-- KEYS 1 claim, 2 meta. ARGV 1 owner, 2 life in ms. Returns 1, or 0 if another has it.

local owner = redis.call('GET', KEYS[1])
if owner and owner ~= ARGV[1] then return 0 end
even_when_full(KEYS[2])
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1
