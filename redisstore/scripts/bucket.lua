-- Token bucket, leaky bucket and warm-up: internal/algo/bucket.go.
-- Spec: b cost gain size debt most step tick. Data: a b [c], as doubles, which hold them exactly and are soon read.
kinds.b = (function()
  local k = {packed = true}

  function k.parse(spec)
    local p = {kind = 'b'}
    p.cost, p.gain, p.size, p.debt, p.most, p.step, p.tick = match(spec, '^b (%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+)$')
    p.cost, p.gain, p.size, p.debt = tonumber(p.cost), tonumber(p.gain), tonumber(p.size), tonumber(p.debt)
    p.most, p.step, p.tick = tonumber(p.most), tonumber(p.step), tonumber(p.tick)
    p.capacity = (p.size + p.debt) / p.cost
    return p
  end

  function k.decode(s, data, p)
    local c
    if #data == 24 and p.step > 0 then
      s.a, s.b, c = decode(data, '<ddd')
    elseif #data == 16 and p.step == 0 then
      s.a, s.b = decode(data)
    end
    s.c = c or 0
    return s.a ~= nil and s.c % 1 == 0
  end

  function k.encode(p, s)
    if p.step > 0 then
      return struct.pack('<ddd', s.a, s.b, s.c)
    end
    return struct.pack('<dd', s.a, s.b)
  end

  local function drained(p, s, t)
    local used, from = s.a, s.b
    if p.step > 0 then
      local i = max(0, floor((from - s.c) / p.step))
      while i < 8 and from < t and used > 0 do
        local gain = p.gain / 12 * (4 + i)
        local ticks = min(t, s.c + (i + 1) * p.step) - from
        if ticks >= ceildiv(used, gain) then
          return s.a
        end
        used, from, i = used - ticks * gain, from + ticks, i + 1
      end
    end
    return s.a - refill(used, t - from, p.gain)
  end

  local function draintime(p, s, units)
    local from = s.b
    if p.step > 0 then
      local i = max(0, floor((from - s.c) / p.step))
      while i < 8 and units > 0 do
        local gain = p.gain / 12 * (4 + i)
        local ticks = s.c + (i + 1) * p.step - from
        local need = ceildiv(units, gain)
        if ticks >= need then
          return from - s.b + need
        end
        units, from, i = units - ticks * gain, from + ticks, i + 1
      end
    end
    return from - s.b + ceildiv(units, p.gain)
  end

  local function coldstart(p, s, t)
    if p.step == 0 then
      return false
    end
    s.a, s.b, s.c, s.used = p.size, t, t, true
    return true
  end

  function k.load(p, s)
    local t = floor(now / p.tick)
    if not s.used then
      s.a, s.b, s.c = 0, t, 0
      return coldstart(p, s, t)
    end
    if s.b > t then
      s.c, s.b = s.c - (s.b - t), t
      return true
    end
    if p.step > 0 and t >= s.b + draintime(p, s, s.a) + p.step * 8 then
      return coldstart(p, s, t)
    end
    s.a, s.b = s.a - drained(p, s, t), t
    return false
  end

  -- check returns whether there is room, the delay, and when a refused take can pass; all kinds' do.
  function k.check(p, s, cost, maxwait)
    local room = p.size - s.a
    cost = cost * p.cost
    if cost <= room then
      return true, 0, 0
    end
    local over = cost - room
    local delay = (s.b + draintime(p, s, over)) * p.tick - now
    if maxwait > 0 then
      if delay <= maxwait and over <= p.most - p.size and (p.debt == 0 or over <= p.debt) then
        return true, delay, 0
      end
      return false, 0, delay
    end
    if over <= p.debt then
      return true, delay, 0
    end
    return false, 0, (s.b + draintime(p, s, over - p.debt)) * p.tick - now
  end

  function k.charge(p, s, cost)
    s.a = s.a + cost * p.cost
  end

  function k.refund(p, s, n)
    if floor(s.a / p.cost) < n then
      s.a = 0
    else
      s.a = s.a - n * p.cost
    end
    s.used = s.a > 0 or p.step > 0
  end

  -- settle refunds a rest, or charges what is missing if it is negative; all kinds' do.
  function k.settle(p, s, rest, _, same)
    if rest < 0 then
      s.a = min(p.most, s.a + min(-rest, floor(p.most / p.cost)) * p.cost)
      s.used = true
    elseif same then
      k.refund(p, s, rest)
    end
  end

  function k.describe(p, s)
    local reset = 0
    if s.a > 0 then
      reset = (s.b + draintime(p, s, s.a)) * p.tick - now
    end
    return floor(max(0, p.size + p.debt - s.a) / p.cost), reset
  end

  function k.usage(p, s)
    return s.a, p.size + p.debt
  end

  function k.seed(p, s, used, capacity, up)
    s.a, s.b = min(p.most, muldiv(used, p.size + p.debt, capacity, up)), floor(now / p.tick)
    s.c = s.b - p.step * 8
    s.used = s.a > 0 or p.step > 0
  end

  -- convert carries a state over from another bucket: up to the change it refilled at the old rate.
  function k.convert(p, old, s, change, up)
    change = min(change, now)
    local from = s.b * old.tick
    if change > from then
      s.a = s.a - drained(old, s, floor(change / old.tick))
      from = change
    end
    s.a = min(p.most, muldiv(s.a, p.size + p.debt, old.size + old.debt, up))
    s.b = ceildiv(from, p.tick)
    if old.step > 0 then
      s.c = floor(s.c * old.tick / p.tick)
    else
      s.c = s.b - p.step * 8
    end
    s.used = s.a > 0 or p.step > 0
    return true
  end

  function k.idleat(p, s)
    return (s.b + draintime(p, s, s.a) + p.step * 8) * p.tick
  end

  return k
end)()
