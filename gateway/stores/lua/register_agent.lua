-- Adds an agent's ingress stream to those that are read, and announces it to the readers.
--
-- KEYS 1 agents with their shard, 2 meta, 3 events. ARGV 1 agent, 2 streams per shard, 3 prefix of the
-- shards' announcement streams. Returns the server's time, or that of the newest event if the clock was
-- set back: earlier requests under this name are always older.

local shard = redis.call('ZSCORE', KEYS[1], ARGV[1])
if not shard then
  local count = redis.call('HINCRBY', KEYS[2], 'agents', 1)
  shard = digits(math.floor((count - 1) / tonumber(ARGV[2])))
  redis.call('ZADD', KEYS[1], shard, ARGV[1])
end
redis.call('XADD', ARGV[3] .. shard, 'MAXLEN', '~', 100, '*', 'agent', ARGV[1])
local now, newest = now_ms(), redis.call('XREVRANGE', KEYS[3], '+', '-', 'COUNT', 1)[1]
if newest then now = math.max(now, tonumber(string.match(newest[1], '%d+')) + 1) end
redis.call('HSET', KEYS[2], 'since:' .. ARGV[1], digits(now))
return digits(now)
