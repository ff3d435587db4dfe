-- permit: renews or releases the permits of an id.
-- KEYS: the buckets. ARGV: the specs (state.lua), one for each bucket; "renew" or "release"; the id.
-- Returns: the number of buckets that had the permit; or a text to ask again as take does.
local function change()
  local verb, id, n = ARGV[arg], ARGV[arg + 1], 0
  for i, key in ipairs(KEYS) do
    local bucket = resolve(fetch(key, 'p'), specs[i])
    if bucket.p.kind == 'p' and bucket.s.used then
      load(bucket, specs[i])
      if kinds.p[verb](bucket.p, bucket.s, id) then
        n = n + 1
        if not bucket.s.gone then
          store(bucket)
        end
      end
    end
  end
  return n
end

local result, ask = try(change)
return ask or result
