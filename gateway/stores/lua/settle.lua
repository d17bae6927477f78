-- Ends a lease of an outbox: off the queue, or to be looked at again. When the request became dirty
-- meanwhile, or the lease went to somebody else, nothing is done.
-- KEYS 1 dirty. ARGV 1 id, 2 lease, 3 ms until it is looked at again or ''. Returns 1 when it was done.

if redis.call('ZSCORE', KEYS[1], ARGV[1]) ~= ARGV[2] then return 0 end
if ARGV[3] == '' then
  redis.call('ZREM', KEYS[1], ARGV[1])
else
  redis.call('ZADD', KEYS[1], now_ms() + tonumber(ARGV[3]), ARGV[1])
end
return 1
