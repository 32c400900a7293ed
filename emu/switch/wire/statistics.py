"""Multipart requests: the switch's statistics of flows, ports and groups, and its features."""

import struct
from collections import Counter
from collections.abc import Iterator

from gradwire.emu.switch.plane.counters import Instruments
from gradwire.emu.switch.ports import SwitchPort, SwitchPorts
from gradwire.emu.switch.table.table import FlowTable, Selection
from gradwire.emu.switch.wire import decode, encode
from gradwire.emu.switch.wire.openflow13 import ProtocolError, bad_length, ofp
from gradwire.emu.switch.wire.oxm import FIELDS
from gradwire.planning.openflow import extension
from gradwire.planning.openflow.entries import MAX_GROUPS, Entry, GroupKind, ToGroup

_PORT_REQUEST = struct.Struct(ofp.OFP_PORT_STATS_REQUEST_PACK_STR)
_PORT_STATS = struct.Struct(ofp.OFP_PORT_STATS_PACK_STR)
_GROUP_REQUEST = struct.Struct(ofp.OFP_GROUP_STATS_REQUEST_PACK_STR)
_EXPERIMENTER = struct.Struct(ofp.OFP_EXPERIMENTER_MULTIPART_HEADER_PACK_STR)
_WITHOUT_BODY = (
    ofp.OFPMP_DESC,
    ofp.OFPMP_TABLE,
    ofp.OFPMP_GROUP_DESC,
    ofp.OFPMP_GROUP_FEATURES,
    ofp.OFPMP_PORT_DESC,
)
_OF_PORTS = (ofp.OFPMP_PORT_STATS, ofp.OFPMP_PORT_DESC)
_OF_GROUPS = (ofp.OFPMP_GROUP, ofp.OFPMP_GROUP_DESC, ofp.OFPMP_GROUP_FEATURES)
_INSTRUCTIONS = (ofp.OFPIT_WRITE_ACTIONS, ofp.OFPIT_APPLY_ACTIONS)
_ACTIONS = (ofp.OFPAT_OUTPUT, ofp.OFPAT_GROUP)
_IDS = struct.Struct("!HH")  # an instruction or an action without its arguments
_OXM_ID = struct.Struct("!HBB")
_NAME_NBYTES = 32


def parts(
    kind: int, body: bytes, switch: SwitchPorts, table: FlowTable, instruments: Instruments, start_ns: int
) -> Iterator[bytes]:
    """The body of the reply to a multipart request, in pieces that stay whole."""
    if kind in _WITHOUT_BODY and body:
        raise bad_length()
    if kind in _OF_GROUPS:
        yield from _group_parts(kind, body, table, instruments)
        return
    if kind in _OF_PORTS:
        yield from _port_parts(kind, body, switch, instruments, start_ns)
        return
    match kind:
        case ofp.OFPMP_DESC:
            yield encode.description(switch.name)
        case ofp.OFPMP_FLOW:
            now_ns = instruments.now_ns()
            for entry in _chosen(body, table):
                yield encode.flow_stats(entry, *instruments.flow_counts(entry.flow), now_ns)
        case ofp.OFPMP_AGGREGATE:
            counts = [instruments.flow_counts(entry.flow) for entry in _chosen(body, table)]
            yield encode.aggregate(len(counts), sum(c[0] for c in counts), sum(c[1] for c in counts))
        case ofp.OFPMP_TABLE:
            seen = [instruments.received(port.interface) for port in switch.ports]
            lookups = sum(received.packets for received in seen)
            missed = sum(received.missed_packets for received in seen)
            yield encode.table_stats(len(table), lookups, lookups - missed)
        case ofp.OFPMP_TABLE_FEATURES:
            if body:  # a controller that would change them
                raise ProtocolError(ofp.OFPET_TABLE_FEATURES_FAILED, ofp.OFPTFFC_EPERM)
            yield table_features(table.max_entries)
        case ofp.OFPMP_EXPERIMENTER:
            _check_experimenter(body)
            yield from _job_counts(table, instruments)
        case _:
            raise ProtocolError(ofp.OFPET_BAD_REQUEST, ofp.OFPBRC_BAD_MULTIPART)


def first(kind: int) -> bytes:
    """What each message of the reply begins with."""
    if kind != ofp.OFPMP_EXPERIMENTER:
        return b""
    return _EXPERIMENTER.pack(extension.EXPERIMENTER, extension.COUNTS_TYPE)


def port_description(port: SwitchPort, instruments: Instruments) -> bytes:
    return encode.port(port.port, instruments.link(port.interface), port.interface, port.rate_bps)


def _chosen(body: bytes, table: FlowTable) -> list[Entry]:
    number, selection = decode.flow_request(body)
    if number not in (0, ofp.OFPTT_ALL):
        raise ProtocolError(ofp.OFPET_BAD_REQUEST, ofp.OFPBRC_BAD_TABLE_ID)
    return table.entries(selection)


def _check_experimenter(body: bytes) -> None:
    if len(body) < _EXPERIMENTER.size:
        raise bad_length()
    experimenter, kind = _EXPERIMENTER.unpack_from(body)
    if experimenter != extension.EXPERIMENTER:
        raise ProtocolError(ofp.OFPET_BAD_REQUEST, ofp.OFPBRC_BAD_EXPERIMENTER)
    if kind != extension.COUNTS_TYPE:
        raise ProtocolError(ofp.OFPET_BAD_REQUEST, ofp.OFPBRC_BAD_EXP_TYPE)
    if len(body) != _EXPERIMENTER.size:
        raise bad_length()


def _job_counts(table: FlowTable, instruments: Instruments) -> Iterator[bytes]:
    for number, job in sorted(table.jobs.held.items()):
        rule, counts = job.rule, instruments.pool_counts(job.pool)
        yield extension.job_counts(
            extension.JobCounts(number, rule.epoch, rule.slots, len(rule.ports), counts)
        )


def _group_parts(kind: int, body: bytes, table: FlowTable, instruments: Instruments) -> Iterator[bytes]:
    if kind == ofp.OFPMP_GROUP:
        yield from _group_stats(body, table, instruments)
    elif kind == ofp.OFPMP_GROUP_FEATURES:
        yield group_features(MAX_GROUPS)
    else:  # a list: the groups may change before the last part is asked for
        yield from [encode.group_description(n, table.groups[n]) for n in sorted(table.groups)]


def _group_stats(body: bytes, table: FlowTable, instruments: Instruments) -> Iterator[bytes]:
    if len(body) != _GROUP_REQUEST.size:
        raise bad_length()
    (number,) = _GROUP_REQUEST.unpack(body)
    if number != ofp.OFPG_ALL and number not in table.groups:
        return  # nothing is said of a group that there is not, as Open vSwitch does it
    entries = table.entries(Selection())
    uses = Counter(a.group for entry in entries for a in entry.actions.given if isinstance(a, ToGroup))
    now_ns = instruments.now_ns()
    numbers = sorted(table.groups) if number == ofp.OFPG_ALL else [number]
    for each, entry in [(each, table.groups[each]) for each in numbers]:
        counts = instruments.group_counts(entry.counter, len(entry.group.buckets))
        yield encode.group_stats(each, entry, uses[each], counts, now_ns)


def _port_parts(
    kind: int, body: bytes, switch: SwitchPorts, instruments: Instruments, start_ns: int
) -> Iterator[bytes]:
    if kind == ofp.OFPMP_PORT_STATS:
        yield from (_port_stats(port, instruments, start_ns) for port in _chosen_ports(body, switch))
    else:
        yield from (port_description(port, instruments) for port in switch.ports)


def _chosen_ports(body: bytes, switch: SwitchPorts) -> tuple[SwitchPort, ...]:
    if len(body) != _PORT_REQUEST.size:
        raise bad_length()
    (number,) = _PORT_REQUEST.unpack(body)
    chosen = tuple(port for port in switch.ports if number in (port.port, ofp.OFPP_ANY))
    if not chosen and number != ofp.OFPP_ANY:
        raise ProtocolError(ofp.OFPET_BAD_REQUEST, ofp.OFPBRC_BAD_PORT)
    return chosen


def _port_stats(port: SwitchPort, instruments: Instruments, start_ns: int) -> bytes:
    came = instruments.received(port.interface)
    went = instruments.transmitted(port.interface)
    no = encode.UNAVAILABLE
    seconds, nanoseconds = divmod(instruments.now_ns() - start_ns, 10**9)
    return _PORT_STATS.pack(
        port.port,
        came.packets,
        went.packets if went else no,
        came.nbytes,
        went.nbytes if went else no,
        came.dropped_packets + came.lost_in,
        went.dropped + came.lost_out if went else no,
        came.lost_packet_ins,  # receive errors: these, as overruns, are the only ones
        no,
        no,
        came.lost_packet_ins,
        no,
        no,  # collisions, as other errors: a veth has none to count
        seconds,
        nanoseconds,
    )


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
