-- Ends a lease of an outbox: off the queue, or to be looked at again; or makes it longer. When the
-- request became dirty meanwhile, or the lease went to somebody else, nothing is done.
-- KEYS 1 dirty. ARGV 1 id, 2 lease, 3 ms until it is looked at again or ''. Returns when that is, as the
-- new lease, 1 when it is off the queue, 0 when nothing was done.

if redis.call('ZSCORE', KEYS[1], ARGV[1]) ~= ARGV[2] then return 0 end
if ARGV[3] == '' then
  redis.call('ZREM', KEYS[1], ARGV[1])
  return 1
end
local again = digits(now_ms() + tonumber(ARGV[3]))
redis.call('ZADD', KEYS[1], again, ARGV[1])
return again
