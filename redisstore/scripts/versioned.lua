-- versioned returns how a state whose numbers end before a place ends when it is of the limit that a tail ("|version|spec") is of,
-- but of another version: with the newer of the two. nil for another limit.
local sub = string.sub
local function versioned(raw, from, tail)
  local version, spec = match(raw, '^|(%d+)|([^|]*)$', from)
  local asked, same = match(tail, '^|(%d+)|([^|]*)$')
  if not version or spec ~= same then
    return nil
  end
  return tonumber(version) > tonumber(asked) and sub(raw, from) or tail
end

