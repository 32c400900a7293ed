"""What the switch says it can do: table features and group features as bytes."""

import struct

from emu.switch.wire.oxm import FIELDS
from planning.openflow.entries import GroupKind
from planning.openflow.openflow13 import ofp

_INSTRUCTIONS = (ofp.OFPIT_WRITE_ACTIONS, ofp.OFPIT_APPLY_ACTIONS)
_ACTIONS = (ofp.OFPAT_OUTPUT, ofp.OFPAT_GROUP)
_IDS = struct.Struct("!HH")  # an instruction or an action without its arguments
_OXM_ID = struct.Struct("!HBB")
_NAME_NBYTES = 32


def table_features(max_entries: int) -> bytes:
    """The one table; a match has one of the sets of these fields that `match.Form` names."""
    fields = b"".join(
        _OXM_ID.pack(ofp.OFPXMC_OPENFLOW_BASIC, field << 1, width) for field, width in FIELDS.items()
    )
    instructions = b"".join(_IDS.pack(kind, _IDS.size) for kind in _INSTRUCTIONS)
    actions = b"".join(_IDS.pack(kind, _IDS.size) for kind in _ACTIONS)
    properties = b"".join(
        _property(kind, value)
        for kind, value in (
            (ofp.OFPTFPT_INSTRUCTIONS, instructions),
            (ofp.OFPTFPT_NEXT_TABLES, b""),
            (ofp.OFPTFPT_WRITE_ACTIONS, actions),
            (ofp.OFPTFPT_APPLY_ACTIONS, actions),
            (ofp.OFPTFPT_MATCH, fields),
            (ofp.OFPTFPT_WILDCARDS, fields),
            (ofp.OFPTFPT_WRITE_SETFIELD, b""),
            (ofp.OFPTFPT_APPLY_SETFIELD, b""),
        )
    )
    length = ofp.OFP_TABLE_FEATURES_SIZE + len(properties)
    name = b"flows".ljust(_NAME_NBYTES, b"\0")
    return struct.pack(ofp.OFP_TABLE_FEATURES_PACK_STR, length, 0, name, 0, 0, 0, max_entries) + properties


def group_features(max_groups: int) -> bytes:
    """The groups of all switches have their room together, so each says the whole."""
    types = sum(1 << kind for kind in GroupKind)
    outputs = 1 << ofp.OFPAT_OUTPUT
    can = ofp.OFPGFC_SELECT_WEIGHT
    return struct.pack(ofp.OFP_GROUP_FEATURES_PACK_STR, types, can, *[max_groups] * 4, *[outputs] * 4)


def _property(kind: int, value: bytes) -> bytes:
    length = _IDS.size + len(value)
    return _IDS.pack(kind, length) + value + bytes(-length % 8)
