-- Sets a new expiry of a note if its text is unchanged. KEYS 1 note. ARGV 1 text, 2 life in ms.

if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return 1
