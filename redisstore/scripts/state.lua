-- How a bucket is kept. A key holds "data|version|spec": the kind's numbers, since when it counts so, and the limit.
-- Only data that is packed, as that of buckets and of fixed windows is, may have a "|" in it.
-- A bucket is {s = state, p = parsed spec, text = spec, version = since when, existed = whether the key is there}.
local FOREIGN = 'WRONGTYPE the key holds something else than a bucket'
local parsed = {}

-- parse throws where this script was assembled without the kind: the caller then runs the one with all of them.
local function parse(text)
  local p = parsed[text]
  if not p then
    local kind = kinds[string.sub(text, 1, 1)]
    if not kind and not kinds.w then
      error({ask = '!'})
    end
    p = kind and kind.parse(text)
    if not p or not p.capacity then
      error({fail = FOREIGN})
    end
    parsed[text] = p
  end
  return p
end

local function header(key, kind)
  if kind == 'l' then
    return pcall_('LINDEX', key, '0')
  elseif kind == 'p' then
    local raw = pcall_('ZRANGEBYSCORE', key, '-1', '-1')
    if raw.err then
      return raw
    end
    if not raw[1] and call('ZCARD', key) > 0 then
      return '' -- somebody else's
    end
    return raw[1] and string.sub(raw[1], 2) or false
  end
  return pcall_('GET', key)
end

-- fetch reads the bucket of a key that the kind is expected under. Whatever is not ours there is an error of this entry.
local function fetch(key, kind)
  local raw = header(key, kind)
  if raw and raw.err then
    if not string.find(raw.err, 'WRONGTYPE', 1, true) then
      error({fail = raw.err})
    end
    local t = call('TYPE', key).ok
    raw = false
    if t == 'list' then
      raw = header(key, 'l')
    elseif t == 'zset' then
      raw = header(key, 'p')
    elseif t == 'string' then
      raw = header(key, 'b')
    end
    raw = raw or ''
  end
  if not raw then
    return {s = {key = key, used = false}, version = 0, existed = false}
  end
  local version, text = match(raw, '|(%d+)|([^|]*)$')
  if not version then
    error({fail = FOREIGN})
  end
  local data = string.sub(raw, 1, -(#version + #text + 3))
  local bucket = {s = {key = key, used = true}, text = text, version = tonumber(version), existed = true}
  bucket.p = parse(text)
  local kind = kinds[bucket.p.kind]
  if not kind.packed and string.find(data, '[^%d -]') then
    error({fail = FOREIGN})
  end
  local known = kind.decode(bucket.s, data, bucket.p)
  if kind.packed and not known then
    error({fail = FOREIGN})
  end
  return bucket
end

local function copy(bucket)
  local s = {}
  for name, value in pairs(bucket.s) do
    s[name] = value
  end
  local kind = kinds[bucket.p.kind]
  if kind.copy and (s.ring or s.new) then
    kind.copy(s)
  end
  return {s = s, p = bucket.p, text = bucket.text, version = bucket.version, existed = bucket.existed}
end

-- convert makes the bucket one of the asked limit, which is not older; see Params.Convert.
local function convert(bucket, asked)
  local s, old, p = bucket.s, bucket.p, parse(asked.text)
  local up, change = asked.version == bucket.version, asked.version
  if up then
    change = now
  end
  local kind, was = kinds[p.kind], kinds[old.kind]
  if p.kind ~= old.kind or not kind.convert(p, old, s, change, up, asked.bounds) then
    if was.leave then
      was.leave(old, s)
    else
      was.load(old, s)
    end
    local used, capacity = was.usage(old, s)
    local fresh = {key = s.key, used = false, a = 0, b = 0, c = 0}
    fresh.foreign = p.kind ~= old.kind or s.foreign
    if p.kind == 'w' then
      fresh.ring = {}
    end
    if used > 0 then
      kind.seed(p, fresh, used, capacity, up, asked.bounds)
    end
    bucket.s = fresh
  end
  bucket.p, bucket.text, bucket.version = p, asked.text, asked.version
end

-- resolve returns a copy of the bucket under the limit that decides: the newer one of its own and the asked one; and
-- whether that converted it, which must then be kept even if nothing is charged.
local function resolve(bucket, asked)
  if not bucket.s.used then
    bucket = {s = {key = bucket.s.key, used = false, foreign = bucket.s.foreign}, existed = bucket.existed}
    bucket.p, bucket.text, bucket.version = parse(asked.text), asked.text, asked.version
    return bucket
  end
  bucket = copy(bucket)
  if bucket.text == asked.text then
    bucket.version = max(bucket.version, asked.version)
  elseif asked.version >= bucket.version then
    convert(bucket, asked)
    return bucket, true
  end
  return bucket, false
end

-- load brings a resolved bucket to the present, and returns whether that must be kept even if nothing is charged.
local function load(bucket, asked)
  return kinds[bucket.p.kind].load(bucket.p, bucket.s, asked.bounds)
end

local function store(bucket)
  local s, p = bucket.s, bucket.p
  local kind = kinds[p.kind]
  if not s.used then
    if bucket.existed then
      call('DEL', s.key)
    end
    return
  end
  local tail = '|' .. num(bucket.version) .. '|' .. bucket.text
  if kind.store then
    kind.store(p, s, tail)
  else
    local idle = kind.idleat(p, s)
    call('SET', s.key, kind.encode(p, s) .. tail, 'PXAT', p.step == 0 and stay(second(idle)) or at(idle))
  end
end

-- ask runs f and returns what it threw to ask of the caller, or to fail with, as a text.
local function try(f, ...)
  local ok, thrown = pcall(f, ...)
  if ok then
    return thrown
  elseif type(thrown) == 'table' and thrown.ask then
    return nil, thrown.ask
  elseif type(thrown) == 'table' and (thrown.fail or thrown.err) then
    return '-' .. (thrown.fail or thrown.err)
  end
  return '-ERR ' .. tostring(thrown)
end

-- The arguments begin with the specs: their number, then version, text and calendar boundaries of each.
local specs, arg = {}, 2
for i = 1, tonumber(ARGV[1]) do
  specs[i] = {version = tonumber(ARGV[arg]), text = ARGV[arg + 1], bounds = ARGV[arg + 2]}
  arg = arg + 3
end

local function take_arg()
  arg = arg + 1
  return ARGV[arg - 1]
end
