-- Ends a lease of an outbox: removes the entry, postpones it, or extends the lease. Does nothing if the
-- entry changed meanwhile, or if the lease went to another worker.
--
-- KEYS 1 dirty. ARGV 1 id, 2 lease, 3 ms until it is due again or ''. Returns the new due time, which is
-- the new lease; 1 if removed; 0 if nothing was done.

if redis.call('ZSCORE', KEYS[1], ARGV[1]) ~= ARGV[2] then return 0 end
if ARGV[3] == '' then
  redis.call('ZREM', KEYS[1], ARGV[1])
  return 1
end
local again = digits(now_ms() + tonumber(ARGV[3]))
redis.call('ZADD', KEYS[1], again, ARGV[1])
return again
