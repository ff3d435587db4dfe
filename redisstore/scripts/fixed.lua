-- Fixed window: internal/algo/window.go.
-- Spec: f n width, or f n 0 unit zone for a calendar, which Lua does not know: the caller sends boundaries of windows
-- around its own clock, and is asked for others where now is not among them. Data: a, b and c as doubles.
kinds.f = (function()
  local k = {packed = true}

  function k.parse(spec)
    local n, width, calendar = match(spec, '^f (%d+) (%d+) ?(.*)$')
    return {kind = 'f', n = tonumber(n), capacity = tonumber(n), width = tonumber(width), calendar = calendar, geometry = width .. calendar}
  end

  function k.decode(s, data)
    if #data == 24 then
      s.a, s.b, s.c = decode(data, '<ddd')
    end
    return s.a and s.c >= 0 and s.c < 9007199254740992 and s.c % 1 == 0
  end

  function k.encode(_, s)
    return struct.pack('<ddd', s.a, s.b, s.c)
  end

  -- window finds the window of now. It throws what to ask the caller for if that cannot be told.
  function k.window(p, bounds)
    if p.width > 0 then
      p.from = now - now % p.width
      p.to = p.from + p.width
      p.next, p.last = p.to + p.width, p.to + 2 * p.width
      return
    end
    for calendar, list in string.gmatch(bounds or '', '([^|;]*)|([^;]*)') do
      local b = {}
      for x in string.gmatch(list, '%d+') do
        b[#b + 1] = tonumber(x)
      end
      for i = 1, #b - 3 do
        if calendar == p.calendar and b[i] <= now and now < b[i + 1] then
          p.from, p.to, p.next, p.last = b[i], b[i + 1], b[i + 2], b[i + 3]
          return
        end
      end
    end
    error({ask = '?' .. num(now) .. ' ' .. p.calendar})
  end

  local function after(p, t)
    if t < p.to then
      return p.to
    elseif t < p.next then
      return p.next
    end
    return p.last
  end

  function k.load(p, s, bounds)
    if not p.from then
      k.window(p, bounds)
    end
    if not s.used then
      s.a, s.b, s.c = p.to, 0, 0
    elseif s.a <= now then
      s.b = s.a >= p.from and s.c or 0
      s.a, s.c = p.to, 0
      s.used = s.b > 0
    elseif s.a - now > p.to - p.from then
      s.a = now + p.to - p.from
      return true
    end
    return false
  end

  function k.check(p, s, cost, maxwait)
    if s.b + cost <= p.n then
      return true, 0, 0, s.a
    elseif s.c + cost > p.n then
      return false, 0, after(p, s.a) - now
    elseif maxwait > 0 and s.a - now <= maxwait then
      return true, s.a - now, 0, after(p, s.a)
    end
    return false, 0, s.a - now
  end

  function k.charge(_, s, cost, delay)
    if delay == 0 then
      s.b = s.b + cost
    else
      s.c = s.c + cost
    end
  end

  function k.refund(_, s, n)
    s.b = s.b - min(s.b, n)
    s.used = s.b > 0 or s.c > 0
  end

  function k.settle(p, s, rest, window, same)
    if rest < 0 then
      s.b = min(TOP, s.b + min(-rest, TOP))
    elseif same and window == s.a then
      s.b = s.b - min(s.b, rest)
    elseif same and window == after(p, s.a) then
      s.c = s.c - min(s.c, rest)
    end
    s.used = s.b > 0 or s.c > 0
  end

  function k.describe(p, s)
    local reset = 0
    if s.c > 0 then
      reset = after(p, s.a) - now
    elseif s.b > 0 then
      reset = s.a - now
    end
    return max(0, p.n - s.b), reset
  end

  -- leave brings a state to the present for another limit to take over, without the boundaries of its own calendar.
  function k.leave(_, s)
    if s.a <= now then
      s.b, s.c = s.c, 0
    end
  end

  function k.usage(p, s)
    return min(TOP, s.b + s.c), p.n
  end

  function k.seed(p, s, used, capacity, up, bounds)
    if not p.from then
      k.window(p, bounds)
    end
    s.a, s.b, s.c = p.to, muldiv(used, p.n, capacity, up), 0
    s.used = s.b > 0
  end

  function k.convert(p, old, s, _, up, bounds)
    if not p.from then
      k.window(p, bounds)
    end
    local over = s.a <= now
    k.leave(old, s)
    s.b, s.c = muldiv(s.b, p.n, old.n, up), muldiv(s.c, p.n, old.n, up)
    if p.geometry ~= old.geometry or over then
      s.a = p.to
    end
    s.used = s.b > 0 or s.c > 0
    return true
  end

  function k.idleat(p, s)
    local _, reset = k.describe(p, s)
    return now + reset
  end

  return k
end)()
