-- Replaces the policy, if it did not change since it was read.
--
-- Counts each removed person, and each removed identity that a route named directly, so that their
-- logins end permanently. Writes even if memory is full, so that a person can always be removed.
-- Every pending request is then checked again, because its places may have changed.
-- KEYS 1 policy, 2 meta, 3 events, 4 departed people, 5 pending, 6 dirty requests.
-- ARGV 1 generation read, 2 policy JSON, 3 event data, 4 digest of the settings' policy file, or ''.
-- Returns the new generation, or -1.

local generation = redis.call('HGET', KEYS[2], 'generation') or '0'
if generation ~= ARGV[1] then return -1 end
even_when_full(KEYS[2])
local function names(policy)
  local found = {}
  for _, person in ipairs(policy.people or {}) do found[person.name] = true end
  local function admit(rules)
    if type(rules) ~= 'table' or type(rules.approvers) ~= 'table' then return end
    for _, name in ipairs(rules.approvers) do
      if string.find(name, ':', 1, true) then found[name] = true end
    end
  end
  for _, route in ipairs(policy.routes or {}) do
    admit(route)
    if type(route.risk) == 'table' then
      for _, rules in pairs(route.risk) do admit(rules) end
    end
  end
  return found
end
local was, stays = redis.call('GET', KEYS[1]), names(cjson.decode(ARGV[2]))
for name in pairs(was and names(cjson.decode(was)) or {}) do
  if not stays[name] then redis.call('HINCRBY', KEYS[4], name, 1) end
end
redis.call('SET', KEYS[1], ARGV[2])
local new = redis.call('HINCRBY', KEYS[2], 'generation', 1)
redis.call('HSET', KEYS[2], 'policy_by', cjson.decode(ARGV[3]).by)
if ARGV[4] ~= '' then redis.call('HSET', KEYS[2], 'policy_file', ARGV[4]) end
event(KEYS[3], 'policy_applied', now_ms(), '', '', '0', ARGV[3])
redis.call('ZUNIONSTORE', KEYS[6], 2, KEYS[6], KEYS[5], 'WEIGHTS', 1, 0, 'AGGREGATE', 'MIN')
return new
