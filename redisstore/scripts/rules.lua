-- rules: replaces the rules that the replicas share, if they are still those that were expected.
-- KEYS: the rules; the list of what they were before.
-- ARGV: the text; who replaces it; the version that is to be replaced, 0 for none, -1 for any; how many former ones to keep,
--   as LTRIM counts from the end.
-- Returns: 1 if it is done, and the version that is there now, 0 for none. A text that is there already stays; also where it
--   replaced just what is expected: then this is that push once more, the answer to which was lost.
-- The version is the µs of the change, and always higher than the last, also where the clock was set back.
local text, by, expected = ARGV[1], ARGV[2], ARGV[3]
local version = call('HGET', KEYS[1], 'version')
local old = version and call('HGET', KEYS[1], 'text')
if expected ~= '-1' and expected ~= (version or '0') and not (old == text and expected == call('HGET', KEYS[1], 'former')) then
  return {'0', version or '0'}
end
if version then
  if old == text then
    return {'1', version}
  end
  call('RPUSH', KEYS[2], table.concat({version, call('HGET', KEYS[1], 'by') or '', old or ''}, '\n'))
  call('LTRIM', KEYS[2], ARGV[4], '-1')
end
local new = string.format('%.0f', max(now, (tonumber(version) or 0) + 1))
call('HSET', KEYS[1], 'version', new, 'text', text, 'by', by, 'former', version or '0')
return {'1', new}
