"""The switch's BPF maps: operations of the flow table in, counters out.

The structs here are those of switch.c, in the machine's byte order without padding of its own;
addresses and ports in network order.
"""

import struct
from collections.abc import Mapping

from emu.switch.bpf import BpfObject, Map
from emu.switch.counters import Received
from emu.switch.entries import (
    MAX_GROUP_SLOTS,
    Action,
    ActionKind,
    ClearCounters,
    Operation,
    RemoveGroup,
    RemoveRule,
    SetGroup,
    SetRule,
)
from emu.switch.match import Form, Match, form
from emu.switch.ports import MAX_PORTS

PROGRAM = "gradwire_switch"
MAX_FLOWS = 131072
MAX_GROUPS = 16384

_PORT = struct.Struct("=III")
_RULE = struct.Struct("=HHII")
_GROUP = struct.Struct(f"=I{MAX_GROUP_SLOTS}I")
_SWITCH = struct.Struct("=I")
_NUMBER_PAIR = struct.Struct("=II")
_FLOW_COUNTER = struct.Struct("=QQ")
_PORT_COUNTER = struct.Struct("=QQQQ")
_FIVE_TUPLE = struct.Struct("!IIBHH3x")
_ADDRESS = struct.Struct("!I")
_ADDRESSES = struct.Struct("!II")


def rule_key(switch_index: int, match: Match) -> bytes:
    """The key of a match in the map of its form."""
    key = _SWITCH.pack(switch_index)
    match form(match):
        case Form.ANY:
            return key
        case Form.DST:
            return key + _ADDRESS.pack(match.ipv4_dst)
        case Form.PAIR:
            return key + _ADDRESSES.pack(match.ipv4_src, match.ipv4_dst)
        case _:
            return key + _FIVE_TUPLE.pack(
                match.ipv4_src, match.ipv4_dst, match.ip_proto, match.sport, match.dport
            )


class Maps:
    """All maps of one loaded switch object."""

    def __init__(self, loaded: BpfObject) -> None:
        self._ports = loaded.map("ports")
        self._groups = loaded.map("groups")
        self._rules: dict[Form | None, Map] = {
            Form.ANY: loaded.map("any_rules"),
            Form.DST: loaded.map("dst_rules"),
            Form.PAIR: loaded.map("pair_rules"),
            Form.FLOW: loaded.map("flow_rules"),
        }
        self._flow_counters = loaded.map("flow_counters").memory(MAX_FLOWS * _FLOW_COUNTER.size)
        self._port_counters = loaded.map("port_counters").memory(MAX_PORTS * _PORT_COUNTER.size)

    def add_port(self, ifindex: int, switch_index: int, salt: int, counter: int) -> None:
        self._ports[_SWITCH.pack(ifindex)] = _PORT.pack(switch_index, salt, counter)

    def apply(self, switch_index: int, ifindex: Mapping[int, int], operation: Operation) -> None:
        """Carry out one operation; `ifindex` maps the switch's ports to interfaces."""
        match operation:
            case SetRule():
                rule = _RULE.pack(
                    operation.priority,
                    operation.action.kind,
                    _argument(operation.action, ifindex),
                    operation.flow,
                )
                self._rules[form(operation.match)][rule_key(switch_index, operation.match)] = rule
            case RemoveRule():
                del self._rules[form(operation.match)][rule_key(switch_index, operation.match)]
            case ClearCounters():
                _FLOW_COUNTER.pack_into(self._flow_counters, operation.flow * _FLOW_COUNTER.size, 0, 0)
            case SetGroup():
                slots = [ifindex[port] for port in operation.ports]
                empty = [0] * (MAX_GROUP_SLOTS - len(slots))
                key = _NUMBER_PAIR.pack(switch_index, operation.group)
                self._groups[key] = _GROUP.pack(len(slots), *slots, *empty)
            case RemoveGroup():
                del self._groups[_NUMBER_PAIR.pack(switch_index, operation.group)]

    def flow_counts(self, flow: int) -> tuple[int, int]:
        """(packets, bytes) of the wire that the flow entry matched."""
        packets, nbytes = _FLOW_COUNTER.unpack_from(self._flow_counters, flow * _FLOW_COUNTER.size)
        return packets, nbytes

    def received(self, counter: int) -> Received:
        return Received(*_PORT_COUNTER.unpack_from(self._port_counters, counter * _PORT_COUNTER.size))


def _argument(action: Action, ifindex: Mapping[int, int]) -> int:
    return ifindex[action.argument] if action.kind == ActionKind.OUTPUT else action.argument
