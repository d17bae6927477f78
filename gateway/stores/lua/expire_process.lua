-- Marks requests as no longer waited for by their process, and deletes the process, unless its lease was
-- renewed meanwhile. Atomic: if the gateway dies before, the next one repeats it.
--
-- KEYS 1 processes, 2 the set of requests that the process waits for, 3 events, 4 prefix of the outboxes,
--      then the records
-- ARGV 1 agent, 2 process, then the requests' ids
-- Returns how many requests it still waits for, and the marked ids.

local now, name = now_ms(), ARGV[1] .. ' ' .. ARGV[2]
local lease = redis.call('ZSCORE', KEYS[1], name)
if lease and tonumber(lease) > now then return {0} end
local told = {}
for i = 3, #ARGV do
  local key, id = KEYS[2 + i], ARGV[i]
  local found = redis.call('HMGET', key, 'agent', 'status', 'process', 'waiting', 'rev', 'queues')
  if found[1] == ARGV[1] and found[2] == 'pending' and found[3] == ARGV[2] and not found[4] then
    local revision = digits(tonumber(found[5]) + 1)
    redis.call('HSET', key, 'waiting', 'false', 'rev', revision)
    event(KEYS[3], 'waiter_lost', now, ARGV[1], id, revision, '{}')
    for queue in string.gmatch(found[6] or '', '%S+') do
      redis.call('ZADD', KEYS[4] .. queue, now, id)
    end
    told[#told + 1] = id
  end
  redis.call('SREM', KEYS[2], id)
end
local left = redis.call('SCARD', KEYS[2])
if left == 0 then redis.call('ZREM', KEYS[1], name) end
return {left, unpack(told)}
