-- What the kinds of limits share; each is a table of functions of the same names.
local TOP = 4503599627370496 -- 2^52: half of what is exact, so that a sum of two is
local NEVER = -1
local kinds = {} -- by the first letter of a spec: how that kind counts

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
