-- Returns the generation, and what of the remembered decisions may cover a request.
-- KEYS 1 meta, then the indexes in which they may stand.

local found = {redis.call('HGET', KEYS[1], 'generation') or '0'}
for i = 2, #KEYS do
  for _, body in ipairs(redis.call('HVALS', KEYS[i])) do found[#found + 1] = body end
end
return found
