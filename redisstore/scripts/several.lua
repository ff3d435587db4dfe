-- several: decides takes on plain buckets in order, each all or nothing over its charges.
-- A bucket that warms up, or whose limit is not the one asked with, is left alone with all takes that need it, for take to
-- decide. Of two versions of one limit the newer stays.
-- KEYS: the buckets, each once, those of one limit together.
-- ARGV: the number of limits; for each limit the end of the state that it writes ("|version|spec"), the units that a token
--   costs, the units that a tick gives, the units that can be in use, the µs of a tick, the number of its keys; then doubles:
--   what all takes together ask of each key, in tokens; and doubles: for each take the number of its charges, and for each
--   charge the number of its key, not twice in a take, and its cost.
-- Returns: doubles: now in µs; for each key the units in use before the takes, as of now, or -1 where it was left alone.
--   What each take was told follows from that, and is worked out by the caller.
-- Where every key has room for all that is asked of it, all takes pass, and none is looked at.
local rep, unpack_ = string.rep, struct.unpack
local count, limits = #KEYS, tonumber(ARGV[1])
local raws = call('MGET', unpack(KEYS)) -- nil also for what is no string
local asked = {unpack_('<' .. rep('d', count), ARGV[2 + 6 * limits])}
local out, used, limit, newer, charged = {now}, {}, {}, {}, {} -- of each key; in units, but for what it is charged, nil for nothing
local roomy, first, arg = true, 1, 2
for _ = 1, limits do
  local l = {tail = ARGV[arg], unit = tonumber(ARGV[arg + 1]), gain = tonumber(ARGV[arg + 2]), size = tonumber(ARGV[arg + 3])}
  l.tick = tonumber(ARGV[arg + 4])
  local last = first + tonumber(ARGV[arg + 5]) - 1
  arg = arg + 6
  l.t = floor(now / l.tick)
  for i = first, last do
    local raw, u, since = raws[i], 0, l.t
    if raw then
      u = nil
      if sub(raw, 17) == l.tail then
        u, since = decode(raw)
      else
        newer[i] = versioned(raw, 17, l.tail)
        if newer[i] then
          u, since = decode(raw)
        end
      end
    elseif call('EXISTS', KEYS[i]) == 1 then
      u = nil
    end
    if u then
      if since > l.t then
        charged[i] = 0 -- it is to be written all the same
      elseif u > 0 then
        u = refill(u, l.t - since, l.gain)
      end
      used[i], limit[i], out[i + 1] = u, l, u
      roomy = roomy and asked[i] * l.unit <= l.size - u
    else
      out[i + 1], roomy = -1, false
    end
  end
  first = last + 1
end
if roomy then
  charged = asked
else
  local text, at = ARGV[arg + 1], 1
  local takes = {unpack_('<' .. rep('d', #text / 8), text)}
  while at < #takes do
    local after = at + 1 + 2 * takes[at]
    local passes = true
    for j = at + 1, after - 1, 2 do
      local i = takes[j]
      local l = limit[i]
      passes = passes and l and takes[j + 1] * l.unit <= l.size - used[i] - (charged[i] or 0) * l.unit
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
    local now_used = used[i] + charged[i] * l.unit
    local idle = second((l.t + ceildiv(now_used, l.gain)) * l.tick)
    call('SET', KEYS[i], struct.pack('<dd', now_used, l.t) .. (newer[i] or l.tail), 'PXAT', stay(idle))
  end
end
return struct.pack('<' .. rep('d', count + 1), unpack(out))
