-- The beginning of every script: the clock. Arithmetic is on integers below 2^53, which Lua's numbers hold exactly.
-- Nothing is a second opinion: each algorithm is that of internal/algo, line by line, and a differential test compares
-- them. Numbers leave Lua through format('%.0f') alone, for tostring writes 1796025600123456 as 1.7960256001235e+15.
local now = redis.call('TIME') now = now[1] * 1000000 + now[2] -- µs; tests replace this line, and this line alone
local call, pcall_, floor, ceil, max, min, match = redis.call, redis.pcall, math.floor, math.ceil, math.max, math.min, string.match
