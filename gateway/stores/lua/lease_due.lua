-- Leases entries of an outbox that are due. The score is the due time, and during a lease its end.
--
-- KEYS 1 dirty. ARGV 1 how many at most, 2 lease in ms. Returns {ids, the lease}.

local now = now_ms()
local ids = redis.call('ZRANGE', KEYS[1], '-inf', digits(now), 'BYSCORE', 'LIMIT', 0, ARGV[1])
local lease = digits(now + tonumber(ARGV[2]))
for i = 1, #ids do redis.call('ZADD', KEYS[1], lease, ids[i]) end
return {ids, lease}
