-- Shares the shards of ingress streams fairly among the live replicas. Leases may be inexact: handling is
-- idempotent, so two readers of one shard only do work twice.
--
-- One of the replicas is the leader, with the `duty`.
-- KEYS 1 agents with their shard, 2 replicas, 3 owners. ARGV 1 replica, 2 lease in ms.
-- Returns {the shards that this replica reads, 1 if it is the leader}.

local now = now_ms()
local lease = now + tonumber(ARGV[2])
redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', digits(now))
redis.call('ZADD', KEYS[2], lease, ARGV[1])
local last = redis.call('ZRANGE', KEYS[1], 0, 0, 'REV', 'WITHSCORES')
local shards = last[2] and tonumber(last[2]) + 1 or 0
local fair = math.ceil(shards / redis.call('ZCARD', KEYS[2]))

local owners = {}
local rows = redis.call('HGETALL', KEYS[3])
for at = 1, #rows, 2 do owners[rows[at]] = rows[at + 1] end
local function is_free(shard)
  local owner = owners[tostring(shard)]
  return not owner or not redis.call('ZSCORE', KEYS[2], owner)
end
local mine, free = {}, {}
for shard = 0, shards - 1 do
  if owners[tostring(shard)] == ARGV[1] then
    mine[#mine + 1] = shard
  elseif is_free(shard) then
    free[#free + 1] = shard
  end
end
while #mine > fair do redis.call('HDEL', KEYS[3], table.remove(mine)) end
while #mine < fair and #free > 0 do
  local shard = table.remove(free)
  redis.call('HSET', KEYS[3], shard, ARGV[1])
  mine[#mine + 1] = shard
end
-- One shard more than exist, so that its first agent is read at once. It is empty, so it counts for nobody.
if is_free(shards) then
  redis.call('HSET', KEYS[3], shards, ARGV[1])
  mine[#mine + 1] = shards
elseif owners[tostring(shards)] == ARGV[1] then
  mine[#mine + 1] = shards
end
local duty = owners.duty
if not duty or (duty ~= ARGV[1] and not redis.call('ZSCORE', KEYS[2], duty)) then
  duty = ARGV[1]
  redis.call('HSET', KEYS[3], 'duty', duty)
end
return {mine, duty == ARGV[1] and 1 or 0}
