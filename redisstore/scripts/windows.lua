-- windows: charges takes to fixed windows of a fixed length, in order, each all or nothing over its charges.
-- A window that holds anything for the one after it, or whose limit is not the one asked with, or that the clock has left
-- backwards, is left alone with all takes that need it, for take to decide. Of two versions of one limit the newer stays.
-- KEYS: the buckets, each once, those of one limit together.
-- ARGV: the number of limits; for each limit the end of the state that it writes ("|version|spec"), how much a window holds, its
--   length in µs, the number of its keys; then doubles: what all takes together ask of each key; and doubles: for each take the
--   number of its charges, and for each charge the number of its key, not twice in a take, and its cost.
-- Returns: doubles: now in µs; for each key what its window held before the takes, or -1 where it was left alone. What
--   each take was told follows from that, and is worked out by the caller.
-- Where every key has room for all that is asked of it, all takes pass, and none is looked at. A key whose window is the present
-- one goes when it was to go.
local format, rep, pack, unpack_ = string.format, string.rep, struct.pack, struct.unpack
local TOP, none = 9007199254740992, struct.pack('<d', 0) -- none is what a window holds for the one after it
local count, limits = #KEYS, tonumber(ARGV[1])
local raws = call('MGET', unpack(KEYS)) -- nil also for what is no string
local asked = {unpack_('<' .. rep('d', count), ARGV[2 + 4 * limits])}
local out = {now, unpack(raws, 1, count)} -- made as long as it gets
local list, fresh, others = {}, {}, {} -- the limits; of a key: whether its window begins, how a state of another version is to end
local roomy, first, arg = true, 1, 2
for n = 1, limits do
  local tail, size, width = ARGV[arg], tonumber(ARGV[arg + 1]), tonumber(ARGV[arg + 2])
  local last = first + tonumber(ARGV[arg + 3]) - 1
  arg = arg + 4
  local to = now - now % width + width
  list[n] = {tail = tail, to = to, size = size, first = first, last = last}
  for i = first, last do
    local raw, b = raws[i], nil
    if raw then
      local ours = sub(raw, 25) == tail
      if not ours then
        ours = versioned(raw, 25, tail)
        others[i] = ours and none .. ours
      end
      if ours then
        local a, used, c = unpack_('<ddd', raw)
        if c == 0 and used >= 1 and used < TOP and used % 1 == 0 then
          if a == to then
            b = used
          elseif a >= 0 and a <= now and a % 1 == 0 then
            b, fresh[i] = 0, true
          end
        end
      end
    elseif call('EXISTS', KEYS[i]) == 0 then
      b, fresh[i] = 0, true
    end
    roomy = roomy and b and asked[i] <= size - b
    out[i + 1] = b or -1
  end
  first = last + 1
end
local charged = asked -- what each key is charged; nil for nothing
if not roomy then
  charged = {}
  local left = {} -- what each key has room for; nil for one that is left alone
  for _, l in ipairs(list) do
    for i = l.first, l.last do
      left[i] = out[i + 1] >= 0 and l.size - out[i + 1] or nil
    end
  end
  local text, at = ARGV[arg + 1], 1
  local takes = {unpack_('<' .. rep('d', #text / 8), text)}
  while at < #takes do
    local after = at + 1 + 2 * takes[at]
    local passes = true
    for j = at + 1, after - 1, 2 do
      local room = left[takes[j]]
      passes = passes and room and takes[j + 1] <= room
    end
    if passes then
      for j = at + 1, after - 1, 2 do
        local i, cost = takes[j], takes[j + 1]
        left[i], charged[i] = left[i] - cost, (charged[i] or 0) + cost
      end
    end
    at = after
  end
end
for _, l in ipairs(list) do
  local when, ours, expiry = pack('<d', l.to), none .. l.tail, format('%.0f', ceil(l.to / 1000))
  for i = l.first, l.last do
    local cost = charged[i]
    if cost then
      local sum, tail = pack('<d', out[i + 1] + cost), others[i] or ours
      if fresh[i] then
        call('SET', KEYS[i], when .. sum .. tail, 'PXAT', expiry)
      elseif others[i] then
        call('SET', KEYS[i], when .. sum .. tail, 'KEEPTTL')
      else
        call('SETRANGE', KEYS[i], '8', sum)
      end
    end
  end
end
return pack('<' .. rep('d', count + 1), unpack(out))
