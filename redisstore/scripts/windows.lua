-- windows: charges takes to fixed windows of a fixed length, in order, each all or nothing over its charges.
-- A window that holds anything for the one after it, or whose limit is not the one asked with, or that the clock has left
-- backwards, is left alone with all takes that need it, for take to decide. Of two versions of one limit the newer stays.
-- KEYS: the buckets, each once, those of one limit together.
-- ARGV: the number of limits; for each limit how the state that it writes ends (" 0|version|spec"), how much a window
--   holds, its length in µs, the number of its keys; then doubles: what all takes together ask of each key; and doubles: for
--   each take the number of its charges, and for each charge the number of its key, not twice in a take, and its cost.
-- Returns: doubles: now in µs; for each key what its window held before the takes, or -1 where it was left alone. What
--   each take was told follows from that, and is worked out by the caller.
-- Where every key has room for all that is asked of it, all takes pass, and none is looked at. All states of a limit in one
-- window begin and end alike, and go at one time: these texts are made once.
local sub, format, rep, unpack_, one = string.sub, string.format, string.rep, struct.unpack, '%d'
local TOP = 9007199254740992
if tonumber(format(one, now)) ~= now then
  one = '%.0f'
end
local count, limits = #KEYS, tonumber(ARGV[1])
local raws = call('MGET', unpack(KEYS)) -- nil also for what is no string
local asked = {unpack_('<' .. rep('d', count), ARGV[2 + 4 * limits])}
local out, held, limit, kept, newer = {now}, {}, {}, {}, {} -- of each key
local roomy, first, arg = true, 1, 2
for _ = 1, limits do
  local suffix, size, width = ARGV[arg], tonumber(ARGV[arg + 1]), tonumber(ARGV[arg + 2])
  local last = first + tonumber(ARGV[arg + 3]) - 1
  arg = arg + 4
  local to = now - now % width + width
  local prefix = format(one, to) .. ' '
  local l = {prefix = prefix, suffix = suffix, expiry = format(one, ceil(to / 1000)), size = size}
  local from, ends = #prefix + 1, -#suffix
  for i = first, last do
    local raw, b = raws[i], 0
    if raw then
      b = nil
      if sub(raw, ends) == suffix and sub(raw, 1, from - 1) == prefix then
        local digits = match(raw, '^[1-9]%d*', from)
        if digits and #raw == from - 1 + #digits - ends then
          b, kept[i] = tonumber(digits), true
        end
      else
        local a, digits, version, spec = match(raw, '^(%d+) (%d+) 0|(%d+)|([^|]*)$')
        if a and not l.spec then
          l.version, l.spec = match(suffix, '^ 0|(%d+)|([^|]*)$')
        end
        if a and spec == l.spec then
          if a .. ' ' == prefix then
            b, kept[i] = tonumber(match(digits, '^[1-9]%d*')), true
          elseif tonumber(a) <= now then
            b = 0
          end
          if tonumber(version) > tonumber(l.version) then
            newer[i] = ' 0|' .. version .. '|' .. spec
          end
        end
      end
      if b and b >= TOP then
        b = nil
      end
    elseif call('EXISTS', KEYS[i]) == 1 then
      b = nil
    end
    if b then
      held[i], limit[i], out[i + 1] = b, l, b
      roomy = roomy and asked[i] <= size - b
    else
      out[i + 1], roomy = -1, false
    end
  end
  first = last + 1
end
local charged = asked -- what each key is charged; nil for nothing
if not roomy then
  charged = {}
  local text, at = ARGV[arg + 1], 1
  local takes = {unpack_('<' .. rep('d', #text / 8), text)}
  while at < #takes do
    local after = at + 1 + 2 * takes[at]
    local passes = true
    for j = at + 1, after - 1, 2 do
      local i = takes[j]
      passes = passes and held[i] and takes[j + 1] <= limit[i].size - held[i] - (charged[i] or 0)
    end
    if passes then
      for j = at + 1, after - 1, 2 do
        local i = takes[j]
        charged[i] = (charged[i] or 0) + takes[j + 1]
      end
    end
    at = after
  end
end
for i = 1, count do
  if charged[i] then
    local l = limit[i]
    local state = l.prefix .. format(one, held[i] + charged[i]) .. (newer[i] or l.suffix)
    if kept[i] then
      call('SET', KEYS[i], state, 'KEEPTTL')
    else
      call('SET', KEYS[i], state, 'PXAT', l.expiry)
    end
  end
end
return struct.pack('<' .. rep('d', count + 1), unpack(out))
