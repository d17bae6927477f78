-- Puts an agent's ingress stream among those that are read, and announces it to whoever reads.
-- KEYS 1 agents with their shard, 2 meta. ARGV 1 agent, 2 streams per shard, 3 prefix of the shards'
-- announcement streams. Returns the server's time.

local shard = redis.call('ZSCORE', KEYS[1], ARGV[1])
if not shard then
  local count = redis.call('HINCRBY', KEYS[2], 'agents', 1)
  shard = digits(math.floor((count - 1) / tonumber(ARGV[2])))
  redis.call('ZADD', KEYS[1], shard, ARGV[1])
end
redis.call('XADD', ARGV[3] .. shard, 'MAXLEN', '~', 100, '*', 'agent', ARGV[1])
return digits(now_ms())
