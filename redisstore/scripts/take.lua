-- take: charges costs to buckets, each take all or nothing, in order.
-- KEYS: the buckets, each once, and the records of reservations.
-- ARGV: the specs (state.lua); the number of takes; for each its number of charges, 1 if it is only to be evaluated, the
--   number in KEYS of its record or 0, how many µs after its start it can be settled, its id; for each charge the number in
--   KEYS of its bucket or 0, of its spec, the cost, the longest wait in µs, 1 if it is in shadow.
-- Returns: for each take a text: for each charge allowed (0 or 1), capacity, remaining, retry, reset, delay, in µs, -1 for
--   never; or "-" and an error, of that take alone; or one text that begins with "?" or "!" where nothing was done and the
--   caller must ask again, with the boundaries of a calendar at a time, or running the script with all kinds.
-- Nothing is written before all takes are decided.
local buckets, dirty, order = {}, {}, {}
local records = {}

local function bucket_of(i, asked)
  local b = buckets[i]
  if not b then
    b = fetch(KEYS[i], string.sub(asked.text, 1, 1))
    buckets[i] = b
  end
  return b
end

local function commit(i, bucket)
  buckets[i] = bucket
  if not dirty[i] then
    dirty[i] = true
    order[#order + 1] = i
  end
end

-- check answers for a cost; a cost of 0 asks for 1, and a refund never fails.
local function check(p, s, cost, maxwait)
  if cost < 0 then
    return true, 0, 0, 0
  elseif cost == 0 then
    cost = 1
  end
  if cost > p.capacity then
    return false, 0, NEVER, 0
  end
  return kinds[p.kind].check(p, s, cost, maxwait)
end

local function charge(p, s, c, id)
  local ok, delay, retry, window = check(p, s, c.cost, c.maxwait)
  if c.cost < 0 then
    if s.used then
      kinds[p.kind].refund(p, s, min(-c.cost, TOP))
    end
  elseif ok and c.cost > 0 then
    kinds[p.kind].charge(p, s, c.cost, delay, window, id)
    s.used = true
  end
  return ok, delay, retry, window
end

local function answer(bucket, ok, delay, retry)
  local p = bucket.p
  local remaining, reset = kinds[p.kind].describe(p, bucket.s)
  return (ok and '1 ' or '0 ') .. num(p.capacity) .. ' ' .. num(remaining) .. ' ' .. num(retry) .. ' ' .. num(reset) .. ' ' .. num(delay)
end

-- record notes what was charged, for a settle to come: until when it can, then a line a charge.
local function record(t, delay, lines)
  local ttl = delay + t.hold
  if t.record > 0 and ttl > 0 then
    records[#records + 1] = {KEYS[t.record], num(now + ttl) .. '\n' .. table.concat(lines, '\n'), at(now + ttl)}
  end
end

local function line(c, p, ok, window)
  local cost = 0
  if ok and c.cost > 0 and p.kind ~= 'p' then -- permits are released, not settled
    cost = c.cost
  end
  return p.kind .. ' ' .. num(cost) .. ' ' .. num(window or 0) .. ' ' .. num(p.capacity) .. ' ' .. KEYS[c.key]
end

-- one is many for a single charge of a bucket, without the copies.
local function one(t)
  local c = t[1]
  local asked = specs[c.spec]
  local bucket, keep = resolve(bucket_of(c.key, asked), asked)
  keep = load(bucket, asked) or keep
  local ok, delay, retry, window = charge(bucket.p, bucket.s, c, t.id)
  local text = answer(bucket, ok, delay, retry)
  if c.cost ~= 0 and (ok or keep) then
    commit(c.key, bucket)
  end
  if (ok or c.shadow) and c.cost > 0 then
    record(t, delay, {line(c, bucket.p, ok, window)})
  end
  return text
end

local UNLIMITED, NONE, GIVEN = '1 -1 -1 0 0 0', '0 0 0 -1 -1 0', '1 0 0 0 -1 0' -- GIVEN: a refund, which never fails

local function many(t)
  local works, found = {}, {}
  local refused = t.dry
  for i, c in ipairs(t) do
    local asked = specs[c.spec]
    if c.key == 0 then
      c.fixed = asked.text == 'u' and UNLIMITED or c.cost < 0 and GIVEN or NONE
      refused = refused or c.fixed == NONE and not c.shadow
    else
      local w = found[c.key]
      if not w then
        w = {key = c.key, spent = 0}
        w.base, w.keep = resolve(bucket_of(c.key, asked), asked)
        w.keep = load(w.base, asked) or w.keep
        w.now = copy(w.base)
        found[c.key], works[#works + 1] = w, w
      end
      w.write = w.write or c.cost ~= 0
      c.work = w
    end
  end
  local texts, lines, longest = {}, {}, 0
  local function try_charge(i, c)
    local w = c.work
    local b = w.now
    local ok, delay, retry, window = charge(b.p, b.s, c, t.id)
    if not ok and w.spent > 0 and not c.shadow then -- earlier charges took the room away: it can pass when all of them can
      local passes, _, later = check(w.base.p, w.base.s, w.spent + max(1, c.cost), c.maxwait)
      if not passes then
        retry = later
      end
    elseif ok and c.cost > 0 then
      w.spent = w.spent + c.cost
    end
    c.ok, c.delay, c.retry = ok, delay, retry
    texts[i], lines[i] = answer(b, ok, delay, retry), line(c, b.p, ok, window)
    if ok and c.cost > 0 then
      longest = max(longest, delay)
    end
    return ok
  end
  for i, c in ipairs(t) do
    if not c.fixed and not c.shadow and not try_charge(i, c) then
      refused = true
    end
  end
  for i, c in ipairs(t) do
    if c.fixed then
      texts[i], lines[i] = c.fixed, '- 0 0 0 -'
    elseif refused then
      local b = c.work.base
      if c.shadow then
        c.ok, c.delay, c.retry = check(b.p, b.s, c.cost, c.maxwait)
      end
      texts[i] = answer(b, c.ok, c.delay, c.retry)
    elseif c.shadow then
      try_charge(i, c)
    end
  end
  for _, w in ipairs(works) do
    if w.write and not refused then
      commit(w.key, w.now)
    elseif w.write and w.keep then
      commit(w.key, w.base)
    end
  end
  if not refused then
    record(t, longest, lines)
  end
  return table.concat(texts, ' ')
end

local results = {}
for i = 1, tonumber(take_arg()) do
  local t = {}
  local n = tonumber(take_arg())
  t.dry, t.record, t.hold, t.id = take_arg() == '1', tonumber(take_arg()), tonumber(take_arg()), take_arg()
  for j = 1, n do
    local c = {key = tonumber(take_arg()), spec = tonumber(take_arg()), cost = tonumber(take_arg())}
    c.maxwait, c.shadow = tonumber(take_arg()), take_arg() == '1'
    t[j] = c
  end
  local decide = many
  if n == 1 and t[1].key > 0 and not t.dry then
    decide = one
  end
  local text, ask = try(decide, t)
  if ask then
    return {ask}
  end
  results[i] = text
end
for _, i in ipairs(order) do
  store(buckets[i])
end
for _, r in ipairs(records) do
  call('SET', r[1], r[2], 'PXAT', r[3])
end
return results
