-- Adds an agent's ingress stream to those that are read, and announces it to the readers.
--
-- The first agents are spread over several shards, so that replicas share the work from the second agent on.
-- Later shards are filled one after the other.
--
-- KEYS 1 agents with their shard, 2 meta, 3 events. ARGV 1 agent, 2 streams per shard, 3 prefix of the
-- shards' announcement streams, 4 shards of the first agents. Returns the server's time, or that of the
-- newest event if the clock was set back: earlier requests under this name are always older.

local shard = redis.call('ZSCORE', KEYS[1], ARGV[1])
if not shard then
  local before, first = redis.call('HINCRBY', KEYS[2], 'agents', 1) - 1, tonumber(ARGV[4])
  shard = math.floor(before / tonumber(ARGV[2]))
  shard = digits(shard < first and before % first or shard)
  redis.call('ZADD', KEYS[1], shard, ARGV[1])
end
redis.call('XADD', ARGV[3] .. shard, 'MAXLEN', '~', 100, '*', 'agent', ARGV[1])
local now, newest = now_ms(), redis.call('XREVRANGE', KEYS[3], '+', '-', 'COUNT', 1)[1]
if newest then now = math.max(now, tonumber(string.match(newest[1], '%d+')) + 1) end
redis.call('HSET', KEYS[2], 'since:' .. ARGV[1], digits(now))
return digits(now)
