"""Walks through pcapng files: sections, interfaces, packets of all three kinds, statistics.

The format: ietf-opsawg-pcapng.  Packets are found by a compiled loop, which hands the rare blocks that say
something about them to Python and steps over those it does not know.
"""

from dataclasses import replace

from gradwire.traces.packets.columns import Octets, empty_records, first_records
from gradwire.traces.packets.packets import Interface
from gradwire.traces.packets.pcapng_blocks import (
    MAGIC,
    BadBlock,
    ByteOrder,
    Clock,
    read_dropped,
    read_interface,
    section_order,
)
from gradwire.traces.packets.pcapng_loop import (
    ASK,
    BAD_CAPTURED,
    BAD_INTERFACE,
    BAD_LENGTH,
    BAD_TRAILER,
    INTERFACE,
    MAX_BLOCK_NBYTES,
    MAX_INTERFACES,
    SECTION,
    new_state,
    walk_blocks,
)
from gradwire.traces.packets.walkers import ROWS_PER_WALK, Walked

MAX_READ_BLOCKS = 1 << 18  # each of them costs some 40 µs
_FAULTS = {
    BAD_LENGTH: "a block's length is impossible",
    BAD_TRAILER: "a block's two lengths differ",
    BAD_CAPTURED: "a packet is longer than its block",
    BAD_INTERFACE: "a packet's interface was not described before it",
}


class PcapngWalker:
    """Begins at the first section header."""

    start = 0

    def __init__(self) -> None:
        self._order: ByteOrder = "little"
        self._n_read = 0
        self._interfaces: list[Interface] = []
        self._told_drops: dict[int, int] = {}
        self._state = new_state()

    @property
    def interfaces(self) -> tuple[Interface, ...]:
        """See Walker.  Without a count from the statistics, the packets' own counts are what is known."""
        counted = self._state.drops
        return tuple(
            replace(interface, dropped=self._told_drops.get(i, int(counted[i]) or None))
            for i, interface in enumerate(self._interfaces)
        )

    def walk(self, data: Octets, at: int) -> Walked:
        """See Walker."""
        records, row = empty_records(ROWS_PER_WALK), 0
        while True:
            row, at, stop = walk_blocks(data, at, self._order == "big", self._state, records, row)
            fault = _FAULTS.get(stop, "")
            if stop != ASK:
                break
            try:
                nbytes = self._read_block(data, at)
            except BadBlock as error:
                fault = str(error)
                break
            if not nbytes:
                break
            at += nbytes
        return Walked(first_records(records, row), at, fault)

    def _read_block(self, data: Octets, at: int) -> int:
        """How long it was; 0 if it is not whole yet.  Raises BadBlock."""
        head = data[at : at + 12].tobytes()
        if len(head) < 12:
            return 0
        order = section_order(head) if head[:4] == MAGIC else self._order
        nbytes = int.from_bytes(head[4:8], order)
        if nbytes < 12 or nbytes % 4 or nbytes > MAX_BLOCK_NBYTES:
            raise BadBlock(_FAULTS[BAD_LENGTH])
        if at + nbytes > len(data):
            return 0
        block = data[at : at + nbytes].tobytes()
        if block[-4:] != block[4:8]:
            raise BadBlock(_FAULTS[BAD_TRAILER])
        self._take(int.from_bytes(head[:4], order), order, block[8:-4])
        return nbytes

    def _take(self, kind: int, order: ByteOrder, body: bytes) -> None:
        self._n_read += 1
        if self._n_read > MAX_READ_BLOCKS:
            raise BadBlock(f"more than {MAX_READ_BLOCKS} blocks about sections and interfaces")
        if kind == SECTION:
            self._order = order
            self._state.section[0] = len(self._interfaces)
        elif kind == INTERFACE:
            interface, clock = read_interface(body, order)
            self._add(interface, clock)
        else:
            number, dropped = read_dropped(body, order)
            number += int(self._state.section[0])
            if dropped is not None and number < len(self._interfaces):
                self._told_drops[number] = dropped

    def _add(self, interface: Interface, clock: Clock) -> None:
        number = len(self._interfaces)
        if number == MAX_INTERFACES:
            raise BadBlock(f"more than {MAX_INTERFACES} interfaces")
        self._interfaces.append(interface)
        self._state.resolution[number] = clock.resolution
        self._state.offset_s[number] = clock.offset_s
        self._state.snaplen[number] = interface.snaplen
        self._state.section[1] = number + 1
