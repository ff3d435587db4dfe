-- beat: writes what a replica has to say into the table of the present second, and reads that of the second before.
-- KEYS: the replicas, each with the µs of its last beat; the marker; then for even and for odd seconds the totals, and what
--   each replica said.
-- ARGV: the replica; the marker to leave if there is none; the µs since which replicas are counted; 1 if it leaves; its
--   counts as a text; then each rule's field and its count.
-- Returns: now in µs; the marker; how many replicas there are, and how many since; 1 if the counts were counted; of the
--   second before how many have beaten, the text of this one or nil, and the totals, field and count in turn.
-- Each second's keys say which second they are of (s) and how many have beaten in it (n); rules' fields begin with a colon.
-- All stay for a while beyond use, the marker for a month: to think that data was lost when it was not costs little.
local function num(x)
  return string.format('%.0f', x)
end
local second = floor(now / 1000000)
local id, gone = ARGV[1], num(floor(now / 1000) + 10000)
local even, odd = {KEYS[3], KEYS[5]}, {KEYS[4], KEYS[6]}
local cur, prev = even, odd
if second % 2 == 1 then
  cur, prev = odd, even
end

local marker = call('GET', KEYS[2]) or ARGV[2]
call('SET', KEYS[2], marker, 'PX', '2678400000')
call('ZREMRANGEBYSCORE', KEYS[1], '-inf', '(' .. num(now - 3000000))
call('ZREMRANGEBYSCORE', KEYS[1], '(' .. num(now), '+inf') -- the clock was set back, and who is there beats again
if ARGV[4] == '1' then
  call('ZREM', KEYS[1], id)
else
  call('ZADD', KEYS[1], num(now), id)
  call('PEXPIREAT', KEYS[1], gone)
end

local counted = '0'
if ARGV[4] ~= '1' then
  if call('HGET', cur[1], 's') ~= num(second) then
    call('DEL', cur[1], cur[2])
    call('HSET', cur[1], 's', num(second))
  end
  if call('HSETNX', cur[2], id, ARGV[5]) == 1 then
    counted = '1'
    call('HINCRBY', cur[1], 'n', '1')
    for i = 6, #ARGV - 1, 2 do
      local field = ARGV[i]
      call('HINCRBY', cur[1], ':' .. field, ARGV[i + 1])
    end
    call('PEXPIREAT', cur[1], gone)
    call('PEXPIREAT', cur[2], gone)
  end
end

local beaten, own, totals = '0', false, {}
if call('HGET', prev[1], 's') == num(second - 1) then
  beaten = call('HGET', prev[1], 'n') or '0'
  own = call('HGET', prev[2], id)
  totals = call('HGETALL', prev[1])
end
return {num(now), marker, num(call('ZCARD', KEYS[1])), num(call('ZCOUNT', KEYS[1], ARGV[3], '+inf')), counted, beaten, own, totals}
