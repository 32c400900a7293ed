"""The pools of in-network aggregation in the kernel: each has the slots of one aggregation job at one switch.

The structs here are those of pools.h.  A pool costs what it is granted: its slots are made with it.
"""

import struct
from collections.abc import Mapping

from gradwire.emu.switch.plane.bpf import BpfObject, grace_period
from gradwire.planning.openflow.entries import Aggregate
from gradwire.planning.openflow.pool import EVENTS, Event
from gradwire.planning.trees.tree import ELEMENTS, MAX_CHILDREN, MAX_POOLS, SMALL_ELEMENTS

SMALL, LARGE = SMALL_ELEMENTS, max(ELEMENTS)  # elements that a slot has room for

_POOL = struct.Struct(f"=QQQIHHIIII{MAX_CHILDREN}I")
_SLOT = struct.Struct("=II")
_NUMBER = struct.Struct("=I")
_COUNTER = struct.Struct(f"={len(EVENTS)}Q")
_SLOT_HEAD_NBYTES = 8 + 2 * 32  # the lock, and the states of both versions
_EMPTY = {most: bytes(_SLOT_HEAD_NBYTES + 2 * 4 * most) for most in (SMALL, LARGE)}


class Pools:
    """The pools of one loaded switch object; what is refused by the kernel is a BpfError."""

    def __init__(self, loaded: BpfObject) -> None:
        self._pools = loaded.map("pools")
        self._slots = {SMALL: loaded.map("small_slots"), LARGE: loaded.map("large_slots")}
        self._counters = loaded.map("pool_counters").memory(MAX_POOLS * _COUNTER.size)
        self._granted: dict[int, tuple[int, int]] = {}  # of each pool: size, number
        self._leaving: dict[int, tuple[int, int]] = {}  # a program may still be at them

    @staticmethod
    def argument(pool: int, child: int) -> int:
        """What a rule with the action says: whose packets these are."""
        return pool << 8 | child

    def set(self, pool: int, rule: Aggregate, ifindex: Mapping[int, int]) -> None:
        """Create the pool, or replace it, with empty slots and counters at zero; all or nothing.

        `rule` is any of the job's rules, `ifindex` maps the switch's ports to interfaces.
        """
        self.remove(pool)
        self._release()
        size = SMALL if rule.elements <= SMALL else LARGE
        slots = self._slots[size]
        created: list[bytes] = []
        try:
            for slot in range(rule.slots):
                key = _SLOT.pack(pool, slot)
                slots[key] = _EMPTY[size]
                created.append(key)
            _COUNTER.pack_into(self._counters, pool * _COUNTER.size, *[0] * len(EVENTS))
            self._pools[_NUMBER.pack(pool)] = _value(pool, rule, ifindex)
        except OSError:
            for key in created:
                del slots[key]
            raise
        self._granted[pool] = size, rule.slots

    def remove(self, pool: int) -> None:
        """Packets for it are dropped from now on.  Its slots are freed when the next is set."""
        if pool in self._granted:
            del self._pools[_NUMBER.pack(pool)]
            self._leaving[pool] = self._granted.pop(pool)

    def counts(self, pool: int) -> dict[Event, int]:
        return dict(zip(EVENTS, _COUNTER.unpack_from(self._counters, pool * _COUNTER.size), strict=True))

    def _release(self) -> None:
        """The kernel may give a slot's memory to another one at once, so nobody must hold it any more."""
        if not self._leaving:
            return
        grace_period()
        for pool, (size, n_slots) in self._leaving.items():
            for slot in range(n_slots):
                del self._slots[size][_SLOT.pack(pool, slot)]
        self._leaving.clear()


def _value(pool: int, rule: Aggregate, ifindex: Mapping[int, int]) -> bytes:
    ports = [ifindex[port] for port in rule.ports]
    return _POOL.pack(
        (1 << len(ports)) - 1,
        rule.gives,
        rule.takes,
        pool,
        rule.job,
        rule.epoch,
        len(ports),
        rule.slots,
        rule.elements,
        0 if rule.parent_port is None else ifindex[rule.parent_port],
        *ports,
        *[0] * (MAX_CHILDREN - len(ports)),
    )
