-- Marks a new namespace with a schema version. One that holds something and has none lost its `meta`, and
-- is left as it is: whether the kill switch was on, an operator says.
-- KEYS 1 meta, then what every namespace in use has some of. ARGV 1 the version. Returns the one that it
-- has then, 0 where it was lost.

even_when_full(KEYS[1])
local found = redis.call('HGET', KEYS[1], 'schema')
if found then return found end
if redis.call('EXISTS', unpack(KEYS, 2)) > 0 then return 0 end
redis.call('HSET', KEYS[1], 'schema', ARGV[1])
return ARGV[1]
