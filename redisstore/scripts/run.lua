-- run: charges runs of equal costs, each to one plain bucket: the commonest takes, at the least expense.
-- A bucket that warms up, or whose limit or version is not the one asked with, is left alone for take to decide.
-- KEYS: the buckets, each once, those of one limit together.
-- ARGV: the number of limits; 1 if all are single takes of one token; for each limit the end of the state that it writes
--   ("|version|spec"), the units that a token costs, the units that a tick gives, the units that can be in use, the µs of
--   a tick, the number of its keys; then, unless all are single takes of one token, the cost and the number of takes of
--   each key.
-- Returns: a text: now in µs; for each key the units in use before the takes, as of now, and, where not all pass, a colon
--   and how many do; or "!" where nothing was done.
-- Most of the time goes into calls and into making texts and functions: so there is none of head.lua here, a key that stays
-- as long as before is not told so again (see stay), and numbers are written by %d, which takes half the time of %.0f and
-- is as good where it has 64 bits.
local format, sub, pack, unpack_ = string.format, string.sub, struct.pack, struct.unpack
local one, two, TOP = '%d', '%d:%d', 9007199254740992
local keys, out = #KEYS, {format(one, now)}
if tonumber(out[1]) ~= now then
  one, two = '%.0f', '%.0f:%.0f'
  out[1] = format(one, now)
end
local raws
if keys == 1 then
  raws = {pcall_('GET', KEYS[1])}
else
  raws = call('MGET', unpack(KEYS)) -- nil also for what is no string
end
local single, first, arg = ARGV[2] == '1', 1, 3
local each = 3 + 6 * tonumber(ARGV[1]) -- where the next cost is, unless all are single takes
for _ = 1, tonumber(ARGV[1]) do
  local tail, unit, gain = ARGV[arg], tonumber(ARGV[arg + 1]), tonumber(ARGV[arg + 2])
  local size, tick = tonumber(ARGV[arg + 3]), tonumber(ARGV[arg + 4])
  local last = first + tonumber(ARGV[arg + 5]) - 1
  arg = arg + 6
  local t, from = floor(now / tick), -#tail
  for i = first, last do
    local raw, used, since, was = raws[i], 0, t, -1
    if raw then
      used = nil
      if not raw.err and #raw == 16 - from and sub(raw, from) == tail then
        used, since = unpack_('<dd', raw)
        if used >= 0 and used < TOP and since >= 0 and since < TOP then
          was = floor((since + floor((used + gain - 1) / gain)) * tick / 1000000)
        else
          used = nil
        end
      end
    elseif keys > 1 and call('EXISTS', KEYS[i]) == 1 then
      used = nil
    end
    if used then
      local rebased = since > t
      if used > 0 and not rebased then
        if t - since >= floor((used + gain - 1) / gain) then -- asked first, so that no product is too large
          used = 0
        else
          used = used - (t - since) * gain
        end
      end
      local cost, n = unit, 1
      if not single then
        cost, n = unit * tonumber(ARGV[each]), tonumber(ARGV[each + 1])
      end
      if size - used < n * cost then
        n = floor(max(0, size - used) / cost)
        out[i + 1] = format(two, used, n)
      elseif used == 0 then
        out[i + 1] = '0'
      else
        out[i + 1] = format(one, used)
      end
      if n > 0 or rebased then
        used = used + n * cost
        local idle = floor((t + floor((used + gain - 1) / gain)) * tick / 1000000)
        if idle == was then
          call('SET', KEYS[i], pack('<dd', used, t) .. tail, 'KEEPTTL')
        else
          call('SET', KEYS[i], pack('<dd', used, t) .. tail, 'PXAT', format(one, idle * 1000 + 2000))
        end
      end
    else
      out[i + 1] = '!'
    end
    if not single then
      each = each + 2
    end
  end
  first = last + 1
end
return table.concat(out, ' ')
