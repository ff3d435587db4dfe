-- Sliding log: internal/algo/log.go.
-- Spec: l n width. A list: the state's header, then an entry "at sum" for each take, oldest first. Data of the header: a b c.
-- Entries are read one at a time, by binary search, and kept in s.new once changed; the list is written at the end.
kinds.l = (function()
  local k = {list = true}

  function k.parse(spec)
    local n, width = match(spec, '^l (%d+) (%d+)$')
    return {kind = 'l', n = tonumber(n), capacity = tonumber(n), width = tonumber(width)}
  end

  function k.decode(s, data)
    local a, b, c = match(data, '^(%d+) (%d+) (%d+)$')
    s.a, s.b, s.c = tonumber(a), tonumber(b), tonumber(c)
    s.stored = call('LLEN', s.key) - 1
    s.first, s.last, s.new, s.changed = 1, s.stored, {}, s.stored + 1
  end

  function k.copy(s)
    local new = {}
    for i, e in pairs(s.new) do
      new[i] = e
    end
    s.new = new
  end

  local function empty(s)
    s.a, s.b, s.c, s.used = 0, now, 0, false
    s.first, s.last, s.new, s.changed = 1, 0, {}, 1
    s.stored = s.stored or 0
  end

  local function entry(s, i)
    local e = s.new[i]
    if not e then
      local when, sum = match(call('LINDEX', s.key, num(i)), '^(%d+) (%d+)$')
      e = {tonumber(when), tonumber(sum)}
    end
    return e[1], e[2]
  end

  -- search returns the first of the entries from lo to s.last for which f holds, or s.last + 1: galloping from lo,
  -- since few entries leave between two takes.
  local function search(s, lo, f)
    local hi, step = lo, 1
    while hi <= s.last and not f(entry(s, hi)) do
      lo, hi, step = hi + 1, hi + step, step * 2
    end
    hi = min(hi, s.last + 1)
    while lo < hi do
      local mid = floor((lo + hi) / 2)
      if f(entry(s, mid)) then
        hi = mid
      else
        lo = mid + 1
      end
    end
    return lo
  end

  function k.load(_, s)
    if not s.used then
      empty(s)
      return false
    end
    local keep = now < s.b
    if keep then
      s.a = s.a + s.b - now
    end
    s.b = now
    return keep
  end

  -- live returns the first entry that has not left, the cost up to there, and the cost of those from there.
  local function live(p, s)
    local t = now + s.a
    local first = search(s, s.first, function(when)
      return when + p.width > t
    end)
    local base, total = s.c, 0
    if first > s.first then
      local _, sum = entry(s, first - 1)
      base = sum
    end
    if s.last >= s.first then
      local _, sum = entry(s, s.last)
      total = sum - base
    end
    return first, base, total
  end

  function k.check(p, s, cost)
    local first, base, total = live(p, s)
    if total + cost <= p.n then
      return true, 0, 0, 0
    end
    local need = base + total + cost - p.n
    local when = entry(s, search(s, first, function(_, sum)
      return sum >= need
    end))
    return false, 0, when + p.width - now - s.a
  end

  function k.charge(p, s, cost)
    local first, base, total = live(p, s)
    s.first, s.c, s.last = first, base, s.last + 1
    s.new[s.last] = {now + s.a, base + total + cost}
    s.changed = min(s.changed, s.last)
  end

  function k.refund(p, s, n)
    local first, base, total = live(p, s)
    if n >= total then
      empty(s)
      return
    end
    local keep = base + total - n
    local i = search(s, first, function(_, sum)
      return sum >= keep
    end)
    local when = entry(s, i)
    for j = i + 1, s.last do
      s.new[j] = nil
    end
    s.new[i], s.last, s.changed = {when, keep}, i, min(s.changed, i)
  end

  function k.describe(p, s)
    local _, _, total = live(p, s)
    local reset = 0
    if total > 0 then
      reset = entry(s, s.last) + p.width - now - s.a
    end
    return max(0, p.n - total), reset
  end

  function k.usage(p, s)
    local _, _, total = live(p, s)
    return total, p.n
  end

  function k.seed(p, s, used, capacity, up)
    local n = muldiv(used, p.n, capacity, up)
    empty(s)
    if n > 0 then
      k.charge(p, s, n)
      s.used = true
    end
  end

  function k.convert(p, old, s, _, up)
    if p.width ~= old.width then
      return false
    end
    k.load(old, s)
    local first, base, total = live(old, s)
    if total == 0 then
      empty(s)
      return true
    end
    local new, n, last = {}, 0, 0
    for i = first, s.last do
      local when, sum = entry(s, i)
      sum = muldiv(sum - base, p.n, old.n, up)
      if sum > last then
        n, last = n + 1, sum
        new[n] = {when, sum}
      end
    end
    s.first, s.last, s.new, s.changed, s.c, s.used = 1, n, new, 1, 0, n > 0
    return true
  end

  function k.store(p, s, tail)
    local key, first = s.key, s.first
    local header = num(s.a) .. ' ' .. num(s.b) .. ' ' .. num(s.c) .. tail
    if s.stored == 0 or s.changed == 1 then
      call('DEL', key)
      call('RPUSH', key, header)
      s.changed = first
      if first > 1 then -- those before first were never stored or are gone
        first = 1
      end
    else
      if s.changed <= s.stored then
        call('LTRIM', key, '0', num(s.changed - 1))
      end
      if first > 1 and first <= s.changed then
        call('LTRIM', key, num(first - 1), '-1')
      elseif first > s.changed then
        call('LTRIM', key, '0', '0')
        s.changed = first
      end
      call('LSET', key, '0', header)
    end
    local batch = {}
    for i = s.changed, s.last do
      batch[#batch + 1] = num(s.new[i][1]) .. ' ' .. num(s.new[i][2])
      if #batch == 1000 or i == s.last then
        call('RPUSH', key, unpack(batch))
        batch = {}
      end
    end
    call('PEXPIREAT', key, at(entry(s, s.last) + p.width - s.a))
  end

  return k
end)()
