-- gradwire's in-network aggregation, for Wireshark and tshark: docs/aggregation.md tells what the fields mean.
-- Use:  tshark -X lua_script:tools/dissect/gradwire-aggregation.lua -r FILE -Y 'gwagg.kind == 3'
-- or put this file into Wireshark's folder of personal plugins (Help, About, Folders).

local FIRST_PORT, LAST_PORT = 0xBEE0, 0xBEFF
local VERSION, HEADER_NBYTES, ELEMENT_NBYTES = 1, 24, 4
local NO_PEAK = -2147483648
local CONTRIBUTION, RESULT, STATUS, EPOCH = 1, 2, 3, 4
local KINDS = {
  [CONTRIBUTION] = "CONTRIBUTION",
  [RESULT] = "RESULT",
  [STATUS] = "STATUS",
  [EPOCH] = "EPOCH",
}

local gwagg = Proto("gwagg", "gradwire aggregation")
local field = gwagg.fields
field.version = ProtoField.uint8("gwagg.version", "Version")
field.kind = ProtoField.uint8("gwagg.kind", "Kind", base.DEC, KINDS)
field.job = ProtoField.uint16("gwagg.job", "Job")
field.epoch = ProtoField.uint16("gwagg.epoch", "Epoch")
field.count = ProtoField.uint16("gwagg.count", "Count")
field.levels = ProtoField.uint16("gwagg.levels", "Levels above the host's switch")
field.chunk = ProtoField.uint32("gwagg.chunk", "Chunk")
field.peak = ProtoField.int32("gwagg.peak", "Peak")
field.seen = ProtoField.uint64("gwagg.seen", "Seen", base.HEX)
field.child = ProtoField.uint8("gwagg.child", "Child whose contribution is in")
field.bare = ProtoField.bool("gwagg.bare", "Bare")
field.present = ProtoField.uint16("gwagg.elements.present", "Elements in the capture")
field.least = ProtoField.int32("gwagg.elements.least", "Least element")
field.largest = ProtoField.int32("gwagg.elements.largest", "Largest element")
field.element = ProtoField.int32("gwagg.element", "Element")

local wrong_version = ProtoExpert.new("gwagg.version.other", "Of another version", expert.group.PROTOCOL, expert.severity.WARN)
local wrong_kind = ProtoExpert.new("gwagg.kind.unknown", "Of no known kind", expert.group.PROTOCOL, expert.severity.WARN)
local wrong_length = ProtoExpert.new("gwagg.length", "Other than the elements that it announces", expert.group.MALFORMED, expert.severity.ERROR)
gwagg.experts = { wrong_version, wrong_kind, wrong_length }
gwagg.prefs.shown = Pref.uint("Elements to show", 8, "How many elements of each packet are shown one by one")

local function add_seen(tree, range)
  local item = tree:add(field.seen, range)
  for child = 0, 63 do  -- bit 0 is the lowest of the last octet
    local octet = range(7 - math.floor(child / 8), 1)
    if bit32.band(octet:uint(), bit32.lshift(1, child % 8)) ~= 0 then
      item:add(field.child, octet, child)
    end
  end
end

local function add_elements(tree, range, n)
  local least, largest = range(0, ELEMENT_NBYTES):int(), range(0, ELEMENT_NBYTES):int()
  for i = 1, n - 1 do
    local value = range(i * ELEMENT_NBYTES, ELEMENT_NBYTES):int()
    least, largest = math.min(least, value), math.max(largest, value)
  end
  local inside = tree:add(range, string.format("Elements: %d from %d to %d", n, least, largest))
  inside:add(field.present, range, n):set_generated()
  inside:add(field.least, range, least):set_generated()
  inside:add(field.largest, range, largest):set_generated()
  for i = 0, math.min(n, gwagg.prefs.shown) - 1 do
    inside:add(field.element, range(i * ELEMENT_NBYTES, ELEMENT_NBYTES))
  end
end

local function announced(kind, count)
  return (kind == CONTRIBUTION or kind == RESULT) and count or 0
end

function gwagg.dissector(buffer, pinfo, root)
  if buffer:len() < HEADER_NBYTES then
    return 0
  end
  local version, kind, count = buffer(0, 1):uint(), buffer(1, 1):uint(), buffer(6, 2):uint()
  local job, epoch, chunk, peak = buffer(2, 2):uint(), buffer(4, 2):uint(), buffer(8, 4):uint(), buffer(12, 4):int()
  local name = KINDS[kind] or string.format("kind %d", kind)
  pinfo.cols.protocol = "GWAGG"
  pinfo.cols.info = string.format("%s job %d epoch %d chunk %d", name, job, epoch, chunk)

  local tree = root:add(gwagg, buffer(), string.format("gradwire aggregation, %s, job %d, chunk %d", name, job, chunk))
  local version_item = tree:add(field.version, buffer(0, 1))
  if version ~= VERSION then
    version_item:add_proto_expert_info(wrong_version)
    return buffer:len()
  end
  local kind_item = tree:add(field.kind, buffer(1, 1))
  if not KINDS[kind] then
    kind_item:add_proto_expert_info(wrong_kind)
  end
  tree:add(field.job, buffer(2, 2))
  tree:add(field.epoch, buffer(4, 2))
  local count_item = tree:add(field.count, buffer(6, 2))
  tree:add(field.chunk, buffer(8, 4))
  local peak_item = tree:add(field.peak, buffer(12, 4))
  if peak == NO_PEAK then
    peak_item:append_text(" (none)")
  end
  add_seen(tree, buffer(16, 8))
  if kind == STATUS then
    tree:add(field.levels, buffer(6, 2)):set_generated()
  elseif kind ~= EPOCH then
    tree:add(field.bare, buffer(6, 2), count == 0):set_generated()
  end
  local n = announced(kind, count)
  if buffer:reported_len() ~= HEADER_NBYTES + n * ELEMENT_NBYTES then
    count_item:add_proto_expert_info(wrong_length)
  end
  local present = math.min(n, math.floor((buffer:len() - HEADER_NBYTES) / ELEMENT_NBYTES))
  if present > 0 then
    add_elements(tree, buffer(HEADER_NBYTES, present * ELEMENT_NBYTES), present)
  end
  return buffer:len()
end

-- On other ports: only what could be nothing else.
local function looks_like_it(buffer, pinfo, root)
  if buffer:len() < HEADER_NBYTES or buffer(0, 1):uint() ~= VERSION then
    return false
  end
  local kind, count = buffer(1, 1):uint(), buffer(6, 2):uint()
  if not KINDS[kind] or buffer:reported_len() ~= HEADER_NBYTES + announced(kind, count) * ELEMENT_NBYTES then
    return false
  end
  local has_seen = buffer(16, 4):uint() ~= 0 or buffer(20, 4):uint() ~= 0
  if has_seen and kind ~= STATUS then
    return false
  end
  gwagg.dissector(buffer, pinfo, root)
  return true
end

gwagg:register_heuristic("udp", looks_like_it)
local by_port = DissectorTable.get("udp.port")
for port = FIRST_PORT, LAST_PORT do
  by_port:add(port, gwagg)
end
