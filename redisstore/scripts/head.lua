-- Arithmetic that all scripts but run share.
local function num(x)
  return string.format('%.0f', x)
end

local function ceildiv(a, b)
  return floor((a + b - 1) / b)
end

-- at returns the millisecond at which a key may go, for a state that is as good as none at the microsecond us.
local function at(us)
  return num(ceil(us / 1000))
end

-- The key of a plain bucket stays for a second or two longer than it is needed, in whole seconds, so that two states that
-- are as good as none in the same second stay as long, and run need not say how long again. second returns that of a
-- state which is as good as none at the microsecond us, and stay the millisecond at which the key may go.
local function second(us)
  return floor(us / 1000000)
end
local function stay(s)
  return num(s * 1000 + 2000)
end

-- refill returns what of the units in use still is after so many ticks of gain. Whether all come back is asked first, so
-- that no product grows beyond what is in use, however long the bucket was idle.
local function refill(used, ticks, gain)
  if ticks >= ceildiv(used, gain) then
    return 0
  end
  return used - ticks * gain
end

-- decode returns the two numbers that begin a packed state, and of the form '<ddd' a third; nil for what is none.
local function decode(raw, form)
  local a, b, c = struct.unpack(form or '<dd', raw)
  if not (a >= 0 and a < 9007199254740992 and a % 1 == 0 and b >= 0 and b < 9007199254740992 and b % 1 == 0) then
    return nil
  end
  return a, b, c
end
