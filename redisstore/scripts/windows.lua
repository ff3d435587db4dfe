-- windows: charges takes to fixed windows of a fixed length, in order, each all or nothing over its charges.
-- A window that holds anything for the one after it, or whose limit or version is not the one asked with, or that the
-- clock has left backwards, is left alone with all takes that need it, for take to decide.
-- KEYS: the buckets, each once, those of one limit together.
-- ARGV: the number of limits; 1 if all costs are 1; for each limit how the state that it writes ends (" 0|version|spec"),
--   how much a window holds, its length in µs, the number of its keys; the number of takes; for each take the number of
--   its charges, and for each charge the number of its key, not twice in a take, and, unless all are 1, its cost.
-- Returns: a text: now in µs; for each key what its window held before the takes, or "!" where it was left alone. What
--   each take was told follows from that, and is worked out by the caller.
-- All states of a limit in one window begin and end alike, and go at one time: these texts are made once.
local sub, format, one = string.sub, string.format, '%d'
if tonumber(format(one, now)) ~= now then
  one = '%.0f'
end
local raws = call('MGET', unpack(KEYS)) -- nil also for what is no string
local out, first, arg = {format(one, now)}, 1, 3
local ones = ARGV[2] == '1'
local held, room, limit, kept, dirty = {}, {}, {}, {}, {} -- of each key
for _ = 1, tonumber(ARGV[1]) do
  local suffix, n, width = ARGV[arg], tonumber(ARGV[arg + 1]), tonumber(ARGV[arg + 2])
  local last = first + tonumber(ARGV[arg + 3]) - 1
  arg = arg + 4
  local to = now - now % width + width
  local prefix = format(one, to) .. ' '
  local l = {prefix = prefix, suffix = suffix, expiry = format(one, ceil(to / 1000))}
  local from, ends = #prefix + 1, -#suffix
  for i = first, last do
    local raw, b = raws[i], 0
    if raw then
      b = nil
      if sub(raw, ends) == suffix then
        if sub(raw, 1, from - 1) == prefix then
          b = tonumber(match(raw, '^%d+', from))
          kept[i] = true
          if not b or from + #format(one, b) ~= #raw + ends + 1 then
            b = nil
          end
        else
          local a = tonumber(match(raw, '^(%d+) %d+ 0|'))
          if a and a <= now then
            b = 0
          end
        end
      end
    elseif call('EXISTS', KEYS[i]) == 1 then
      b = nil
    end
    if b then
      held[i], room[i], limit[i] = b, n - b, l
      out[i + 1] = format(one, b)
    else
      out[i + 1] = '!'
    end
  end
  first = last + 1
end
local step = ones and 1 or 2
local keys, costs = {}, {} -- of the charges of a take
arg = arg + 1
for _ = 1, tonumber(ARGV[arg - 1]) do
  local n = tonumber(ARGV[arg])
  local passes = true
  for j = 1, n do
    local a = arg + 1 + step * (j - 1)
    local i, cost = tonumber(ARGV[a]), 1
    if not ones then
      cost = tonumber(ARGV[a + 1])
    end
    keys[j], costs[j] = i, cost
    passes = passes and room[i] and cost <= room[i]
  end
  if passes then
    for j = 1, n do
      local i, cost = keys[j], costs[j]
      held[i], room[i], dirty[i] = held[i] + cost, room[i] - cost, true
    end
  end
  arg = arg + 1 + step * n
end
for i = 1, #KEYS do
  if dirty[i] then
    local l = limit[i]
    if kept[i] then
      call('SET', KEYS[i], l.prefix .. format(one, held[i]) .. l.suffix, 'KEEPTTL')
    else
      call('SET', KEYS[i], l.prefix .. format(one, held[i]) .. l.suffix, 'PXAT', l.expiry)
    end
  end
end
return table.concat(out, ' ')
