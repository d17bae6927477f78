-- Marks a namespace with a schema version, unless it has that or a newer one.
-- KEYS 1 meta. ARGV 1 the version. Returns the one that it has then.

even_when_full(KEYS[1])
local found = redis.call('HGET', KEYS[1], 'schema')
if found and tonumber(found) >= tonumber(ARGV[1]) then return found end
redis.call('HSET', KEYS[1], 'schema', ARGV[1])
return ARGV[1]
