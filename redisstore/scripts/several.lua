-- several: decides takes on plain buckets in order, each all or nothing over its charges.
-- A bucket that warms up, or whose limit or version is not the one asked with, is left alone with all takes that need it,
-- for take to decide.
-- KEYS: the buckets, each once, those of one limit together.
-- ARGV: the number of limits; 1 if all costs are 1; for each limit the end of the state that it writes ("|version|spec"), the
--   units that a token costs, the units that a tick gives, the units that can be in use, the µs of a tick, the number of
--   its keys; the number of takes; for each take the number of its charges, and for each charge the number of its key,
--   not twice in a take, and, unless all are 1, its cost.
-- Returns: a text: now in µs; for each key the units in use before the takes, as of now, or "!" where it was left alone.
--   What each take was told follows from that, and is worked out by the caller.
local sub = string.sub
local raws = call('MGET', unpack(KEYS)) -- nil also for what is no string
local out, first, arg = {num(now)}, 1, 3
local ones = ARGV[2] == '1'
local used, room, unit, limit, dirty = {}, {}, {}, {}, {} -- of each key, in units
for _ = 1, tonumber(ARGV[1]) do
  local l = {tail = ARGV[arg], gain = tonumber(ARGV[arg + 2]), tick = tonumber(ARGV[arg + 4])}
  local cost, size = tonumber(ARGV[arg + 1]), tonumber(ARGV[arg + 3])
  local last = first + tonumber(ARGV[arg + 5]) - 1
  arg = arg + 6
  l.t = floor(now / l.tick)
  for i = first, last do
    local raw, u, since = raws[i], 0, l.t
    if raw then
      u = nil
      if sub(raw, 17) == l.tail then
        u, since = decode(raw)
      end
    elseif call('EXISTS', KEYS[i]) == 1 then
      u = nil
    end
    if u then
      if since > l.t then
        dirty[i] = true
      elseif u > 0 then
        u = refill(u, l.t - since, l.gain)
      end
      used[i], room[i], unit[i], limit[i] = u, size - u, cost, l
      out[i + 1] = u == 0 and '0' or num(u)
    else
      out[i + 1] = '!'
    end
  end
  first = last + 1
end
local step = ones and 1 or 2
local keys, needs = {}, {} -- of the charges of a take
arg = arg + 1
for _ = 1, tonumber(ARGV[arg - 1]) do
  local n = tonumber(ARGV[arg])
  local passes = true
  for j = 1, n do
    local a = arg + 1 + step * (j - 1)
    local i = tonumber(ARGV[a])
    local need = unit[i]
    if need and not ones then
      need = need * tonumber(ARGV[a + 1])
    end
    keys[j], needs[j] = i, need
    passes = passes and need and need <= room[i]
  end
  if passes then
    for j = 1, n do
      local i = keys[j]
      used[i], room[i], dirty[i] = used[i] + needs[j], room[i] - needs[j], true
    end
  end
  arg = arg + 1 + step * n
end
for i = 1, #KEYS do
  if dirty[i] then
    local l = limit[i]
    local tail = l.tail
    local idle = second((l.t + ceildiv(used[i], l.gain)) * l.tick)
    call('SET', KEYS[i], struct.pack('<dd', used[i], l.t) .. tail, 'PXAT', stay(idle))
  end
end
return table.concat(out, ' ')
