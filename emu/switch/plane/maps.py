"""The switch's BPF maps: flow table operations go in, counters come out.

The structs here are those of layout.h, in the machine's byte order without padding of its own;
addresses and ports in network order.
"""

import struct
from collections.abc import Iterable, Mapping, Sequence
from itertools import repeat
from typing import NamedTuple

from gradwire.emu.switch.plane.bpf import BpfObject, Map
from gradwire.emu.switch.plane.counters import Received
from gradwire.emu.switch.plane.pools import Pools
from gradwire.emu.switch.ports import MAX_PORTS, MAX_SWITCH_PORTS, MAX_SWITCHES
from gradwire.emu.switch.table.planeoperations import (
    ClearCounters,
    ClearGroupCounters,
    Operation,
    RemoveGroup,
    RemovePool,
    RemoveRule,
    SetGroup,
    SetPool,
    SetRule,
    SetRules,
)
from gradwire.planning.openflow.entries import (
    MAX_BUCKETS,
    MAX_FLOWS,
    MAX_GROUPS,
    Action,
    Aggregate,
    Output,
    ToGroup,
)
from gradwire.planning.openflow.match import Form, Match, form
from gradwire.planning.openflow.pool import Event

PROGRAM = "gradwire_switch"
PACKET_OUT_PROGRAM = "gradwire_packet_out"

_PORT = struct.Struct("=9I")
_RULE = struct.Struct("=HBBIIxxxxQ")
_GROUP_HEAD = struct.Struct(f"=IIII{MAX_BUCKETS}B")
_BUCKET = struct.Struct("=II")
_NUMBER = struct.Struct("=I")
_NUMBER_PAIR = struct.Struct("=II")
_SWITCH_STATE = struct.Struct("=Ixxxx")
_COUNTER = struct.Struct("=QQ")
_GROUP_COUNTER_NBYTES = _COUNTER.size * (1 + MAX_BUCKETS)
_PORT_COUNTER = struct.Struct("=9Q")  # as Received, then two of the program's own
_FIVE_TUPLE = struct.Struct("!IIBHH3x")
_ADDRESS = struct.Struct("!I")
_ADDRESSES = struct.Struct("!II")
_FRAME = struct.Struct("=IIH")
_DROP, _OUTPUT, _GROUP, _LIST, _AGGREGATE = range(5)  # enum action
_LIST_GROUP_KIND = 0  # an action list is a group of kind ALL without counters
_NO_COUNTER = 0xFFFFFFFF
_OWN_MAPS = {Form.ANY: "any_rules", Form.DST: "dst_rules", Form.PAIR: "pair_rules", Form.FLOW: "flow_rules"}


# Of the forms that tables are full of: the fields of a match that are in the key, and the key.
_KEYS = {
    Form.DST: ((2,), struct.Struct("!4sI")),
    Form.PAIR: ((1, 2), struct.Struct("!4sII")),
    Form.FLOW: ((1, 2, 3, 4, 5), struct.Struct("!4sIIBHH3x")),
}


class PortState(NamedTuple):
    """struct port; `salt` is the switch's, losses are in 2^-32.

    `switch_loses`: one of the ports that the switch sends to loses what goes out.
    """

    switch_index: int
    number: int
    salt: int
    counter: int
    is_live: bool
    rx_loss: int = 0
    tx_loss: int = 0
    loss_seed: int = 0
    switch_loses: bool = False


def rule_key(switch_index: int, match: Match) -> tuple[Form, bytes]:
    """The form of a match, and its key in the map of that form."""
    matched = form(match)
    if matched is Form.FLOW:
        address = match.ipv4_src, match.ipv4_dst, match.ip_proto, match.sport, match.dport
        return matched, _NUMBER.pack(switch_index) + _FIVE_TUPLE.pack(*address)
    if matched is Form.DST:
        return matched, _NUMBER.pack(switch_index) + _ADDRESS.pack(match.ipv4_dst)
    if matched is Form.PAIR:
        return matched, _NUMBER.pack(switch_index) + _ADDRESSES.pack(match.ipv4_src, match.ipv4_dst)
    if matched is Form.ANY:
        return matched, _NUMBER.pack(switch_index)
    assert matched is not None, "changes.py lets only forms pass"
    number = (match.eth_type if matched is Form.ETH_TYPE else match.dport) or 0
    eth_dst, eth_src = match.eth_dst or 0, match.eth_src or 0
    key = _FRAME.pack(switch_index, match.in_port or 0, matched) + number.to_bytes(2, "big")
    return matched, key + eth_dst.to_bytes(6, "big") + eth_src.to_bytes(6, "big")


class Maps:
    """All maps of one loaded switch object."""

    def __init__(self, loaded: BpfObject) -> None:
        self._ports = loaded.map("ports")
        self._switch_ports = loaded.map("switch_ports")
        self._groups = loaded.map("groups")
        self._lists = loaded.map("lists")
        frames = loaded.map("frame_rules")
        self._rules: dict[Form, Map] = {
            each: loaded.map(_OWN_MAPS[each]) if each in _OWN_MAPS else frames for each in Form
        }
        self._switches = loaded.map("switches").memory(MAX_SWITCHES * _SWITCH_STATE.size)
        self._flow_counters = loaded.map("flow_counters").memory(MAX_FLOWS * _COUNTER.size)
        self._group_counters = loaded.map("group_counters").memory(MAX_GROUPS * _GROUP_COUNTER_NBYTES)
        self._port_counters = loaded.map("port_counters").memory(MAX_PORTS * _PORT_COUNTER.size)
        self._pools = Pools(loaded)
        self._n_rules: dict[tuple[int, Form], int] = {}  # of each switch and form; a form in use is looked up
        self._listed: dict[tuple[Form, bytes], int] = {}  # the flows of the rules that have an action list

    def set_port(self, ifindex: int, state: PortState) -> None:
        self._ports[_NUMBER.pack(ifindex)] = _PORT.pack(*state)

    def set_switch_ports(self, switch_index: int, interfaces: Iterable[int]) -> None:
        """The interfaces that a flood goes to."""
        indices = list(interfaces)
        empty = [0] * (MAX_SWITCH_PORTS - len(indices))
        value = struct.pack(f"={1 + MAX_SWITCH_PORTS}I", len(indices), *indices, *empty)
        self._switch_ports[_NUMBER.pack(switch_index)] = value

    def apply(self, switch_index: int, ifindex: Mapping[int, int], operation: Operation) -> None:
        """Carry out one operation; `ifindex` maps the switch's ports to interfaces."""
        match operation:
            case SetRule():
                self._set_rule(switch_index, ifindex, operation)
            case SetRules():
                self._set_rules(switch_index, ifindex, operation.rules)
            case RemoveRule():
                self._remove_rule(switch_index, operation)
            case ClearCounters():
                _COUNTER.pack_into(self._flow_counters, operation.flow * _COUNTER.size, 0, 0)
            case SetGroup():
                self._groups[_NUMBER_PAIR.pack(switch_index, operation.group)] = _group(operation, ifindex)
            case ClearGroupCounters():
                at = operation.counter * _GROUP_COUNTER_NBYTES
                start = at + (_COUNTER.size if operation.keeps_whole else 0)
                end = at + _GROUP_COUNTER_NBYTES
                self._group_counters[start:end] = bytes(end - start)
            case RemoveGroup():
                del self._groups[_NUMBER_PAIR.pack(switch_index, operation.group)]
            case SetPool():
                self._pools.set(operation.pool, operation.rule, ifindex)
            case RemovePool():
                self._pools.remove(operation.pool)
            case _:
                raise TypeError(f"not an operation on maps: {operation}")

    def flow_counts(self, flow: int) -> tuple[int, int]:
        """(packets, bytes) of the wire that the flow entry matched."""
        packets, nbytes = _COUNTER.unpack_from(self._flow_counters, flow * _COUNTER.size)
        return packets, nbytes

    def group_counts(self, counter: int, n_buckets: int) -> list[tuple[int, int]]:
        """(packets, bytes) of a group, then of each of its buckets."""
        at = counter * _GROUP_COUNTER_NBYTES
        octets = self._group_counters[at : at + (1 + n_buckets) * _COUNTER.size]
        return [(packets, nbytes) for packets, nbytes in _COUNTER.iter_unpack(octets)]

    def received(self, counter: int) -> Received:
        counts = _PORT_COUNTER.unpack_from(self._port_counters, counter * _PORT_COUNTER.size)
        return Received(*counts[:-2])

    def pool_counts(self, pool: int) -> Mapping[Event, int]:
        return self._pools.counts(pool)

    def _set_rule(self, switch_index: int, ifindex: Mapping[int, int], rule: SetRule) -> None:
        key = rule_key(switch_index, rule.match)
        action, argument = _action(rule, ifindex)
        if action == _LIST:  # before the rule that leads to it
            self._lists[_NUMBER_PAIR.pack(0, rule.flow)] = _action_list(rule.actions, ifindex)
        is_table_miss = key[0] is Form.ANY and rule.priority == 0
        value = _RULE.pack(rule.priority, action, is_table_miss, argument, rule.flow, rule.cookie)
        is_new = self._rules[key[0]].insert(key[1], value)
        listed = self._listed.get(key)
        if listed is not None and (listed != rule.flow or action != _LIST):
            del self._lists[_NUMBER_PAIR.pack(0, listed)]
            del self._listed[key]
        if action == _LIST:
            self._listed[key] = rule.flow
        if is_new:
            self._count_rule(switch_index, key[0], 1)

    def _set_rules(self, switch_index: int, ifindex: Mapping[int, int], rules: Sequence[SetRule]) -> None:
        """As `_set_rule` of each, in one call of the kernel."""
        matches, priorities, effective, flows, cookies, _ = zip(*rules, strict=True)
        matched = form(matches[0])
        distinct = {id(actions): rule for actions, rule in zip(effective, rules, strict=True)}
        action_of = {each: _action(rule, ifindex) for each, rule in distinct.items()}
        if matched not in _KEYS or any(action == _LIST for action, _ in action_of.values()):
            for rule in rules:
                self._set_rule(switch_index, ifindex, rule)
            return
        fields, key = _KEYS[matched]
        columns = [*zip(*matches, strict=True)]
        numbers = [columns[place] for place in fields]
        keys = b"".join(map(key.pack, repeat(_NUMBER.pack(switch_index)), *numbers))
        actions, arguments = zip(*[action_of[id(each)] for each in effective], strict=True)
        values = map(_RULE.pack, priorities, actions, repeat(0), arguments, flows, cookies)
        self._rules[matched].update(keys, b"".join(values), len(rules))
        self._count_rule(switch_index, matched, len(rules))

    def _remove_rule(self, switch_index: int, rule: RemoveRule) -> None:
        key = rule_key(switch_index, rule.match)
        del self._rules[key[0]][key[1]]
        self._count_rule(switch_index, key[0], -1)
        if key in self._listed:
            del self._lists[_NUMBER_PAIR.pack(0, self._listed.pop(key))]

    def _count_rule(self, switch_index: int, form: Form, change: int) -> None:
        """Have a form looked up from its first rule on, and until its last has gone."""
        before = self._n_rules.get((switch_index, form), 0)
        self._n_rules[switch_index, form] = before + change
        if not before or not before + change:
            at = switch_index * _SWITCH_STATE.size
            (forms,) = _SWITCH_STATE.unpack_from(self._switches, at)
            _SWITCH_STATE.pack_into(self._switches, at, forms ^ 1 << form)


def _action(rule: SetRule, ifindex: Mapping[int, int]) -> tuple[int, int]:
    """(enum action, its argument)"""
    match rule.actions:
        case ():
            return _DROP, 0
        case (Output(port),):
            return _OUTPUT, _target(port, ifindex)
        case (ToGroup(number),):
            return _GROUP, number
        case (Aggregate(child=child),):
            assert rule.pool is not None, "a table names the pool of a rule that adds up"
            return _AGGREGATE, Pools.argument(rule.pool, child)
        case _:
            return _LIST, 0


def _target(port: int | None, ifindex: Mapping[int, int]) -> int:
    """An interface's index, a reserved port as it is, or 0."""
    return 0 if port is None else ifindex.get(port, port)


def _action_list(actions: tuple[Action, ...], ifindex: Mapping[int, int]) -> bytes:
    targets = [_target(action.port, ifindex) for action in actions if isinstance(action, Output)]
    return _group_value(_LIST_GROUP_KIND, _NO_COUNTER, (), [(target, 0) for target in targets])


def _group(operation: SetGroup, ifindex: Mapping[int, int]) -> bytes:
    buckets = [
        (_target(bucket.target(), ifindex), _target(bucket.watch_port, ifindex))
        for bucket in operation.value.buckets
    ]
    return _group_value(operation.value.kind, operation.counter, operation.weighted, buckets)


def _group_value(kind: int, counter: int, weighted: tuple[int, ...], buckets: list[tuple[int, int]]) -> bytes:
    free = [0] * (MAX_BUCKETS - len(weighted))
    head = _GROUP_HEAD.pack(kind, len(buckets), counter, len(weighted), *weighted, *free)
    value = head + b"".join(_BUCKET.pack(*bucket) for bucket in buckets)
    return value.ljust(_GROUP_HEAD.size + MAX_BUCKETS * _BUCKET.size, b"\0")
