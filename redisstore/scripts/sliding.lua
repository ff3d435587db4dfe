-- Sliding window: internal/algo/sliding.go.
-- Spec: w n width tick slices. Data: a b, then the counts of the slices from a backwards, those at the end that are 0 left out.
kinds.w = (function()
  local k = {}

  function k.parse(spec)
    local n, width, tick, slices = match(spec, '^w (%d+) (%d+) (%d+) (%d+)$')
    return {kind = 'w', n = tonumber(n), capacity = tonumber(n), width = tonumber(width), tick = tonumber(tick), slices = tonumber(slices)}
  end

  -- ring[1] is the count of the newest slice; what is not there is 0.
  function k.decode(s, data)
    s.ring = {}
    for x in string.gmatch(data, '%d+') do
      if not s.a then
        s.a = tonumber(x)
      elseif not s.b then
        s.b = tonumber(x)
      else
        s.ring[#s.ring + 1] = tonumber(x)
      end
    end
  end

  function k.encode(p, s)
    local out = {num(s.a), num(s.b)}
    local last = 2 * p.slices + 1
    while last > 0 and (s.ring[last] or 0) == 0 do
      last = last - 1
    end
    for j = 1, last do
      out[j + 2] = num(s.ring[j] or 0)
    end
    return table.concat(out, ' ')
  end

  function k.copy(s)
    local ring = {}
    for j, c in pairs(s.ring) do
      ring[j] = c
    end
    s.ring = ring
  end

  -- move makes slice the newest one.
  local function move(p, s, slice)
    local n = slice - s.a
    if n == 0 then
      return
    end
    local ring = {}
    for j = 2 * p.slices + 1, 1, -1 do
      ring[j] = j > n and s.ring[j - n] or 0
    end
    s.ring, s.a = ring, slice
  end

  function k.load(p, s)
    local keep = false
    local i = floor(floor(now / p.tick) / p.width)
    if not s.used then
      s.a, s.b, s.ring = i, i, {}
      return false
    elseif i < s.b then
      s.a, s.b, keep = s.a - (s.b - i), i, true
    end
    if i > s.a then
      move(p, s, i)
    end
    s.b = i
    return keep
  end

  local function count(s, j) -- of the slice j before the newest
    return s.ring[j + 1] or 0
  end

  local function sum(s, n)
    local x = 0
    for j = 0, n - 1 do
      x = x + count(s, j)
    end
    return x
  end

  local function from(p, s)
    local t = floor(now / p.tick)
    local into = t - s.a * p.width
    if into < 0 then
      return s.a * p.width, 0
    end
    return t, into
  end

  local function used(p, s)
    local _, into = from(p, s)
    return count(s, p.slices) * (p.width - into) + sum(s, p.slices) * p.width
  end

  function k.check(p, s, cost, maxwait)
    local start, into = from(p, s)
    local total = sum(s, p.slices)
    for m = 0, p.slices do
      if m > 0 then
        total = total - count(s, p.slices - m)
        start, into = (s.a + m) * p.width, 0
      end
      local free = p.n - cost - total
      if free >= 0 then
        local old, when = count(s, p.slices - m), 0
        if old > free then
          when = p.width - floor(free * p.width / old)
        end
        if when < p.width or m == p.slices then
          start = start + max(0, when - into)
          break
        end
      end
    end
    if start <= floor(now / p.tick) then
      return true, 0, 0, s.a
    end
    local delay, slice = start * p.tick - now, floor(start / p.width)
    if maxwait > 0 and delay <= maxwait and slice <= s.b + p.slices then
      return true, delay, 0, slice
    end
    return false, 0, delay
  end

  function k.charge(p, s, cost, _, slice)
    move(p, s, slice)
    s.ring[1] = count(s, 0) + cost
  end

  function k.refund(p, s, n)
    local left = false
    for j = 1, 2 * p.slices + 1 do
      local c = s.ring[j] or 0
      local take = min(c, n)
      s.ring[j] = c - take
      n = n - take
      left = left or s.ring[j] > 0
    end
    s.used = left
  end

  function k.settle(p, s, rest, slice, same)
    if rest < 0 then
      s.ring[1] = count(s, 0) + min(-rest, max(0, 3 * p.n - sum(s, 2 * p.slices + 1)))
    else
      local j = s.a - slice
      if same and j >= 0 and j <= 2 * p.slices then
        s.ring[j + 1] = count(s, j) - min(count(s, j), rest)
      end
    end
    k.refund(p, s, 0)
  end

  function k.idleat(p, s)
    for j = 0, 2 * p.slices do
      if count(s, j) > 0 then
        return (s.a - j + p.slices + 1) * p.width * p.tick
      end
    end
    return now
  end

  function k.describe(p, s)
    local remaining = 0
    if s.a <= s.b then
      remaining = floor(max(0, p.n * p.width - used(p, s)) / p.width)
    end
    return remaining, max(0, k.idleat(p, s) - now)
  end

  function k.usage(p, s)
    return used(p, s), p.n * p.width
  end

  function k.seed(p, s, part, capacity, up)
    local n = min(2 * p.n, muldiv(part, p.n, capacity, up))
    if n > 0 then
      s.used = false
      k.load(p, s)
      s.ring[1], s.used = n, true
    end
  end

  function k.convert(p, old, s, _, up)
    if p.width * p.tick ~= old.width * old.tick or p.slices ~= old.slices then
      return false
    end
    k.load(old, s)
    local total, scaled = 0, 0
    for j = 1, 2 * p.slices + 1 do
      total = total + (s.ring[j] or 0)
      local next = muldiv(total, p.n, old.n, up)
      s.ring[j], scaled = next - scaled, next
    end
    k.refund(p, s, 0)
    return true
  end

  return k
end)()
