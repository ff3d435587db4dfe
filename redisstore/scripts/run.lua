-- run: charges runs of equal costs, each to one plain bucket: the commonest takes, at the least expense.
-- A bucket that warms up, or whose limit is not the one asked with, is left alone for take to decide. Of two versions of one
-- limit the newer stays.
-- KEYS: the buckets, each once, those of one limit together.
-- ARGV: the number of limits; 1 if all are single takes of one token; for each limit the end of the state that it writes
--   ("|version|spec"), the units that a token costs, the units that a tick gives, the units that can be in use, the µs of
--   a tick, the number of its keys; then, unless all are single takes of one token, doubles: the cost and the number of takes
--   of each key.
-- Returns: doubles: now in µs; for each key the units in use before the takes, as of now, from which follows how many of
--   them pass; or -1 where nothing was done.
-- Most of the time goes into calls and into making texts and functions: so there is none of head.lua here, numbers come and
-- go as doubles, and a key that stays as long as before is not told so again (see stay). %d takes half the time of %.0f.
local format, sub, rep, pack, unpack_ = string.format, string.sub, string.rep, struct.pack, struct.unpack
local one, TOP = '%d', 9007199254740992
if tonumber(format(one, now)) ~= now then
  one = '%.0f' -- where %d has less than 64 bits
end
local count, limits = #KEYS, tonumber(ARGV[1])
local raws
if count == 1 then
  raws = {pcall_('GET', KEYS[1])}
else
  raws = call('MGET', unpack(KEYS)) -- nil also for what is no string
end
local single, first, arg, out, costs = ARGV[2] == '1', 1, 3, {now}, nil
if not single then
  costs = {unpack_('<' .. rep('d', 2 * count), ARGV[3 + 6 * limits])}
end
for _ = 1, limits do
  local tail, unit, gain = ARGV[arg], tonumber(ARGV[arg + 1]), tonumber(ARGV[arg + 2])
  local size, tick = tonumber(ARGV[arg + 3]), tonumber(ARGV[arg + 4])
  local last = first + tonumber(ARGV[arg + 5]) - 1
  arg = arg + 6
  local t, from = (now - now % tick) / tick, -#tail
  local when, long = pack('<d', t), 16 - from
  local state, version, spec = when .. tail, nil, nil -- but for the units in use
  for i = first, last do
    local raw, used, since, was, ours = raws[i], 0, t, -1, state
    if raw then
      used = nil
      local known = not raw.err and #raw == long and sub(raw, from) == tail
      if not known and not raw.err then
        local v, s = match(raw, '^|(%d+)|([^|]*)$', 17)
        if v and not spec then
          version, spec = match(tail, '^|(%d+)|([^|]*)$')
        end
        known = v and s == spec
        if known and tonumber(v) > tonumber(version) then
          ours = when .. sub(raw, 17)
        end
      end
      if known then
        used, since = unpack_('<dd', raw)
        if used >= 0 and used < TOP and used % 1 == 0 and since >= 0 and since < TOP and since % 1 == 0 then
          was = floor((since + floor((used + gain - 1) / gain)) * tick / 1000000)
        else
          used = nil
        end
      end
    elseif count > 1 and call('EXISTS', KEYS[i]) == 1 then
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
      out[i + 1] = used
      local cost, n = unit, 1
      if costs then
        cost, n = unit * costs[2 * i - 1], costs[2 * i]
      end
      if size - used < n * cost then
        n = max(0, size - used) / cost
        n = n - n % 1
      end
      if n > 0 or rebased then
        used = used + n * cost
        local idle = floor((t + floor((used + gain - 1) / gain)) * tick / 1000000)
        if idle == was then
          call('SET', KEYS[i], pack('<d', used) .. ours, 'KEEPTTL')
        else
          call('SET', KEYS[i], pack('<d', used) .. ours, 'PXAT', format(one, idle * 1000 + 2000))
        end
      end
    else
      out[i + 1] = -1
    end
  end
  first = last + 1
end
return pack('<' .. rep('d', count + 1), unpack(out))
