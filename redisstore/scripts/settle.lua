-- settle: sets the cost that a reservation turned out to have. It works once.
-- KEYS: the record, then the buckets that it charged, in order, those without one left out.
-- ARGV: the specs (state.lua), one for each bucket; the cost.
-- Returns: 1; 0 if there is no such record; or a text to ask again as take does.
local function settle()
  local lines = call('GET', KEYS[1])
  if not lines or tonumber(match(lines, '^%d+')) <= now then
    return 0
  end
  local cost, i, todo = tonumber(ARGV[arg]), 1, {}
  for kind, reserved, window, capacity, key in string.gmatch(lines, '([^ \n]+) (%d+) (%d+) (%d+) ([^\n]+)') do
    if kind ~= '-' then
      i = i + 1
      if KEYS[i] ~= key then
        return 0
      end
      todo[#todo + 1] = {kind, tonumber(reserved), tonumber(window), key, specs[i - 1], tonumber(capacity)}
    end
  end
  if i ~= #KEYS then
    return 0
  end
  local done, byKey = {}, {}
  for _, x in ipairs(todo) do
    if x[2] > 0 then
      local asked = x[5]
      local bucket = resolve(byKey[x[4]] or fetch(x[4], x[1]), asked)
      load(bucket, asked)
      local p, s = bucket.p, bucket.s
      if kinds[p.kind].settle then -- the limit may have changed to one that has no reservations
        local rest = x[2] - cost
        if rest > 0 and p.capacity ~= x[6] then
          rest = muldiv(rest, p.capacity, x[6]) -- as what was charged was carried over
        end
        kinds[p.kind].settle(p, s, rest, x[3], p.kind == x[1])
      end
      if not byKey[x[4]] then
        done[#done + 1] = x[4]
      end
      byKey[x[4]] = bucket
    end
  end
  call('DEL', KEYS[1])
  for _, key in ipairs(done) do
    store(byKey[key])
  end
  return 1
end

local result, ask = try(settle)
return ask or result
