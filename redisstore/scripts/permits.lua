-- Permits: internal/algo/permits.go.
-- Spec: p n width. A sorted set: a member "i=id" for the i-th permit of an id, scored by when it ends in the bucket's own
-- time, and a member "#" with the state's header, scored -1. Data of the header: a b. New ones wait in s.new for the end.
kinds.p = (function()
  local k = {set = true}

  function k.parse(spec)
    local n, width = match(spec, '^p (%d+) (%d+)$')
    return {kind = 'p', n = tonumber(n), capacity = tonumber(n), width = tonumber(width)}
  end

  function k.decode(s, data)
    local a, b = match(data, '^(%d+) (%d+)$')
    s.a, s.b, s.new, s.count = tonumber(a), tonumber(b), {}, 0
  end

  function k.copy(s)
    local new = {}
    for i, e in pairs(s.new) do
      new[i] = e
    end
    s.new = new
  end

  function k.load(_, s)
    if not s.used then
      s.a, s.b, s.new, s.count = 0, now, {}, 0
      return false
    end
    local keep = now < s.b
    if keep then
      s.a = s.a + s.b - now
    end
    s.b = now
    return keep
  end

  local function after(s)
    return '(' .. num(now + s.a)
  end

  local function stored(s)
    if s.foreign then -- the key still holds what another algorithm kept
      return 0
    end
    return call('ZCOUNT', s.key, after(s), '+inf')
  end

  local function ending(s, i) -- of the stored ones, counted from 0
    return tonumber(call('ZRANGEBYSCORE', s.key, after(s), '+inf', 'WITHSCORES', 'LIMIT', num(i), '1')[2])
  end

  function k.check(p, s, cost)
    local old = stored(s)
    local live = old + s.count
    if live + cost <= p.n then
      return true, 0, 0, 0
    end
    local i = min(live + cost - p.n, live) - 1
    if s.count == 0 then
      return false, 0, ending(s, i) - now - s.a
    end
    local mine = now + s.a + p.width
    local before = s.foreign and 0 or call('ZCOUNT', s.key, after(s), num(mine))
    if i < before then
      mine = ending(s, i)
    elseif i >= before + s.count then
      mine = ending(s, i - s.count)
    end
    return false, 0, mine - now - s.a
  end

  function k.charge(_, s, cost, _, _, id)
    s.new[#s.new + 1] = {id, cost}
    s.count = s.count + cost
  end

  function k.refund() -- permits are given back by release
  end

  function k.describe(p, s)
    local old, reset = stored(s), 0
    if old > 0 then
      reset = tonumber(call('ZREVRANGE', s.key, '0', '0', 'WITHSCORES')[2]) - now - s.a
    end
    if s.count > 0 then
      reset = max(reset, p.width)
    end
    return max(0, p.n - old - s.count), reset
  end

  function k.usage()
    return 0, 1
  end

  function k.seed(_, s)
    s.used = false
  end

  function k.convert()
    return true -- those in flight stay in flight, each for the time that it was given
  end

  -- store adds the new permits and lets those go that have ended.
  function k.store(p, s, tail)
    local key = s.key
    if s.foreign then
      call('DEL', key)
      s.foreign = nil
    elseif s.count > 0 then
      call('ZREMRANGEBYSCORE', key, '0', num(now + s.a))
    end
    call('ZREMRANGEBYSCORE', key, '-1', '-1')
    call('ZADD', key, '-1', '#' .. num(s.a) .. ' ' .. num(s.b) .. tail)
    local ends = num(now + s.a + p.width)
    for _, e in ipairs(s.new) do
      local i = 0 -- the first number that the id has not got
      for _ = 1, e[2] do
        while call('ZSCORE', key, num(i) .. '=' .. e[1]) do
          i = i + 1
        end
        call('ZADD', key, ends, num(i) .. '=' .. e[1])
      end
    end
    s.new, s.count = {}, 0
    local last = tonumber(call('ZREVRANGE', key, '0', '0', 'WITHSCORES')[2])
    call('PEXPIREAT', key, at(max(last - s.a, now + 1)))
  end

  -- renew and release change the stored permits of an id at once, and return whether any had not ended.
  function k.renew(p, s, id)
    local i, ids = 0, {}
    while true do
      local member = num(i) .. '=' .. id
      local ends = tonumber(call('ZSCORE', s.key, member) or nil)
      if not ends then
        break
      elseif ends > now + s.a then
        ids[#ids + 1] = member
      end
      i = i + 1
    end
    if #ids == 0 then
      return false
    end
    call('ZREMRANGEBYSCORE', s.key, '0', num(now + s.a)) -- as a charge does
    for _, member in ipairs(ids) do
      call('ZADD', s.key, num(now + s.a + p.width), member)
    end
    return true
  end

  function k.release(_, s, id)
    local i, live = 0, false
    while true do
      local ends = tonumber(call('ZSCORE', s.key, num(i) .. '=' .. id) or nil)
      if not ends then
        break
      end
      live = live or ends > now + s.a
      i = i + 1
    end
    if not live then
      return false
    end
    for j = 0, i - 1 do
      call('ZREM', s.key, num(j) .. '=' .. id)
    end
    if call('ZCARD', s.key) == 1 then -- the header alone
      call('DEL', s.key)
      s.gone = true
    end
    return true
  end

  return k
end)()
