-- The beginning of every script: the clock, and arithmetic on integers below 2^53, which Lua's numbers hold exactly.
-- Nothing here is a second opinion: each algorithm is that of internal/algo, line by line, and a differential test
-- compares them. Numbers leave Lua through num() alone, for tostring writes 1796025600123456 as 1.7960256001235e+15.
local now = redis.call('TIME') now = now[1] * 1000000 + now[2] -- µs; tests replace this line, and this line alone
local call, pcall_, floor, ceil, max, min, match = redis.call, redis.pcall, math.floor, math.ceil, math.max, math.min, string.match
local TOP = 4503599627370496 -- 2^52: half of what is exact, so that a sum of two is
local NEVER = -1
local kinds = {} -- by the first letter of a spec: how that kind counts

local function num(x)
  return string.format('%.0f', x)
end

local function ceildiv(a, b)
  return floor((a + b - 1) / b)
end

-- muldiv returns a*b/c, rounded down, or up if asked, but TOP at most: long multiplication, since a*b may not be exact.
local function muldiv(a, b, c, up)
  if a == 0 or b == 0 then
    return 0
  end
  local whole, part = floor(a / c), a % c
  if whole > TOP / b then
    return TOP
  end
  local q, rest, bit = 0, 0, 1
  while bit * 2 <= b do
    bit = bit * 2
  end
  local left = b
  while bit >= 1 do
    q = q * 2
    if rest >= c - rest then
      rest, q = rest - (c - rest), q + 1
    else
      rest = rest + rest
    end
    if left >= bit then
      left = left - bit
      if rest >= c - part then
        rest, q = rest - (c - part), q + 1
      else
        rest = rest + part
      end
    end
    bit = bit / 2
  end
  if up and rest > 0 then
    q = q + 1
  end
  return min(TOP, whole * b + q)
end

-- at returns the millisecond at which a key may go, for a state that is as good as none at the microsecond us.
local function at(us)
  return num(ceil(us / 1000))
end
