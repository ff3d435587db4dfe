-- run: charges runs of equal costs, each to one plain bucket: the commonest takes, at the least expense.
-- A bucket that warms up, or whose limit or version is not the one asked with, is left alone for take to decide.
-- KEYS: the buckets, each once.
-- ARGV: the number of specs; for each the end of the state that it writes ("|version|spec"), the units that a token costs,
--   the units that a tick gives, the units that can be in use, the µs of a tick; for each key the number of its spec, the
--   cost of a take, the number of takes.
-- Returns: a text: now in µs; for each key the units in use before the takes, as of now, and how many takes pass; or "!"
--   where nothing was done.
local specs, arg = {}, 2
for i = 1, tonumber(ARGV[1]) do
  specs[i] = {
    ARGV[arg], tonumber(ARGV[arg + 1]), tonumber(ARGV[arg + 2]), tonumber(ARGV[arg + 3]), tonumber(ARGV[arg + 4]),
  }
  arg = arg + 5
end
local out = {num(now)}
for i = 1, #KEYS do
  local key, spec = KEYS[i], specs[tonumber(ARGV[arg])]
  local tail, cost, gain, size, tick = spec[1], spec[2], spec[3], spec[4], spec[5]
  local raw = pcall_('GET', key)
  local t = floor(now / tick)
  local used, since, rest = 0, t, tail
  if raw then
    if raw.err then
      rest = nil -- not a string: take says what it is
    else
      used, since, rest = match(raw, '^(%d+) (%d+)(|.*)$')
    end
  end
  if rest == tail then
    used, since = tonumber(used), tonumber(since)
    local rebased = since > t
    if not rebased and used > 0 then
      used = refill(used, t - since, gain)
    end
    cost = cost * tonumber(ARGV[arg + 1])
    local n = min(tonumber(ARGV[arg + 2]), floor(max(0, size - used) / cost))
    out[i + 1] = string.format('%.0f %.0f', used, n)
    if n > 0 or rebased then
      used = used + n * cost
      call('SET', key, string.format('%.0f %.0f', used, t) .. tail, 'PXAT', at((t + ceildiv(used, gain)) * tick))
    end
  else
    out[i + 1] = '!'
  end
  arg = arg + 3
end
return table.concat(out, ' ')
