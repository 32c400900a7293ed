"""A rank's loop in Python: all that a plan can ask of a rank.

What its other form in C (`cloop.CompiledLoop`) does as well is the same in both, and a test holds them
beside each other.  One thread, one epoll; no socket ever blocks.
"""

import heapq
import select
import time
from math import inf

import numpy as np
from numpy.typing import NDArray

from gradwire.emu.replay import centre_values, payload
from gradwire.emu.replay.aggregating import Aggregating
from gradwire.emu.replay.connection import PeerLost, RankConnection
from gradwire.emu.replay.outcome import Stalled, scheduled_ns
from gradwire.emu.replay.pair_values import Compressing
from gradwire.emu.replay.pairs import merge_pairs
from gradwire.emu.replay.polling import events_within
from gradwire.emu.replay.rankrepeat import RankRepeat
from gradwire.emu.replay.slots import Key, Matching
from gradwire.emu.replay.state import Possible, RankState
from gradwire.traces.framing.gloo import Opcode, encode_preamble
from gradwire.traces.schedules.outbox import NEWEST_FIRST, PATIENCE_S, Outbox
from gradwire.traces.schedules.sends import Send, swaps


class Loop:
    """One rank's side of one repeat."""

    def __init__(self, own: RankRepeat, aggregating: Aggregating) -> None:
        schedule, rank = own.schedule, own.rank
        self._own, self._schedule, self._rank = own, schedule, rank
        self._delay_ns = schedule.send_delay_ns
        self._sends = schedule.sends.of_rank(rank)
        self._connections = own.connections
        self._matching = Matching(schedule, rank, own.repeat)
        self._receiving: dict[int, int] = {}  # peer -> the send that is coming in
        self._state = RankState(schedule, rank)
        self._buffers = own.buffers
        self._compressing = Compressing(schedule, rank)
        self._aggregating = aggregating
        added = (send.nbytes for send in self._sends.values() if send.reduce and send.dst == rank)
        largest = max(added, default=0)
        self._scratch = {peer: np.full(largest, 0, np.uint8) for peer in self._connections}  # pages made now
        self._swapped = swaps(schedule.sends, schedule.sends.numbers_of(rank))
        self._held: dict[int, NDArray[np.uint8]] = {}  # by our half of a swap: what the other half brought
        self._flushed: set[RankConnection] = set()  # since the last poll: what they wait for may have changed
        self._gaps: list[tuple[int, int]] = []  # heap of (due_ns, op)
        self._in_turn = {gate.op for gate in schedule.gates if gate.rank == rank and gate.is_in_turn}
        self._waiting: list[tuple[int, int]] = []  # what comes in turn: (op, its gap)
        self._is_offering = False  # sends that may leave are being offered to the kernel
        self._delayed: list[tuple[int, bool, int]] = []  # heap of (due_ns, whether a send, its number)
        self._times = own.times
        own_ops = [send.op for send in self._sends.values() if send.src == rank]
        self._outbox = Outbox(own_ops, PATIENCE_S) if schedule.order == NEWEST_FIRST else None
        self._place = own.place
        if self._place is not None:
            self._place.begin(self._state.n_ops, len(self._sends))
        self._read_ns = 0  # when what came last was there
        self._heard_ns = 0  # when anything last happened of which silence would be a fault

    def run(self, start_ns: int) -> None:
        """Wait for the common start, do the whole schedule.  Raise PeerLost, Stalled or WorkerFailed."""
        by_fd = {connection.sock.fileno(): connection for connection in self._connections.values()}
        with select.epoll() as poll:
            for fd in by_fd:
                poll.register(fd, select.EPOLLIN)
            self._aggregating.register(poll)
            before = scheduled_ns()
            self._times.wait(start_ns)
            self._heard_ns = self._times.began_ns
            self._do(self._state.begin())
            self._leave()
            self._loop(poll, by_fd)
            self._times.end(before)

    def _loop(self, poll: select.epoll, by_fd: dict[int, RankConnection]) -> None:
        writing: set[RankConnection] = set()
        while not self._state.is_done:
            for connection in self._flushed:
                if connection.wants_to_send != (connection in writing):
                    writing ^= {connection}
                    wanted = select.EPOLLIN | (select.EPOLLOUT if connection in writing else 0)
                    poll.modify(connection.sock.fileno(), wanted)
            self._flushed.clear()
            self._aggregating.watch(poll)
            finished = self._aggregating.run(poll, self._until_ns())
            events = poll.poll(0) if finished is not None else events_within(poll, self._timeout_s())
            to_peers = [(by_fd[fd], mask) for fd, mask in events if fd in by_fd]
            self._check_silence(bool(to_peers))
            for connection, mask in to_peers:
                if mask & ~select.EPOLLOUT:
                    self._receive(connection)
                if mask & select.EPOLLOUT:
                    self._flush(connection)
            self._end_gaps()
            self._end_delays()
            for number in [*(finished or ()), *self._aggregating.step([fd for fd, _ in events])]:
                self._aggregated(number)
            self._leave()
            if self._place is not None:
                n_moved = len(self._sends) - len(self._state.unfinished)
                self._place.write(self._state.n_done, self._n_under_way, n_moved)

    @property
    def _n_under_way(self) -> int:
        """Sends, receives and sums that have begun and are not over."""
        times = self._times
        begun = len(times.queued_ns) + len(self._receiving) + len(times.begun_ns)
        return begun - len(times.handed_ns) - len(times.aggregated_ns)

    def _until_ns(self) -> int:
        """When there is something to do even if nothing happens; a worker's times apart."""
        due_ns = [heap[0][0] for heap in (self._gaps, self._delayed) if heap]
        if self._outbox and self._outbox.ask_again_s < inf:
            due_ns.append(int(self._outbox.ask_again_s * 1e9) + 1)
        return min(due_ns, default=self._heard_ns + int(self._own.stall_s * 1e9))

    def _timeout_s(self) -> float:
        return max(0.0, (self._aggregating.due_ns(self._until_ns()) - time.monotonic_ns()) / 1e9)

    def _check_silence(self, heard: bool) -> None:
        """Raise Stalled after too long a silence of the peers; a worker judges its switches' itself."""
        now_ns = time.monotonic_ns()
        if heard or self._gaps or self._delayed or self._aggregating.outstanding:
            self._heard_ns = now_ns
        elif now_ns - self._heard_ns >= self._own.stall_s * 1e9:
            unfinished = self._state.unfinished
            raise Stalled(self._own.waiting_for(min(unfinished), len(unfinished)))

    def _end_gaps(self) -> None:
        while self._gaps and self._gaps[0][0] <= (now_ns := time.monotonic_ns()):
            due_ns, op = heapq.heappop(self._gaps)
            self._times.late_gap_ns = max(self._times.late_gap_ns, now_ns - due_ns)
            if op in self._times.computing_ns:
                self._times.computed_ns[op] = now_ns
            self._do(self._state.opened(op), due_ns)

    def _end_delays(self) -> None:
        while self._delayed and self._delayed[0][0] <= time.monotonic_ns():
            _, is_send, number = heapq.heappop(self._delayed)
            if is_send:
                self._offer(number)
                self._flush(self._connections[self._sends[number].dst])
            else:
                self._aggregating.begin(number, self._buffers)

    def _after_delay(self, number: int, *, is_send: bool) -> None:
        """Queue a send, or begin an aggregation, `send_delay_ns` from now."""
        heapq.heappush(self._delayed, (time.monotonic_ns() + self._delay_ns, is_send, number))

    def _do(self, possible: Possible, since_ns: int | None = None) -> None:
        """Announce receives, send what may leave, and compute: since `since_ns`, or from now on; what comes
        in turn only when all that may leave has been offered to the kernel.

        What is computed right after something else does not begin later because that was noticed late; after
        a receive it begins when that was there, as a captured job, too, copied and added in the time that it
        computed by its packets.
        """
        for op in possible.done:
            self._compressing.done(op, self._buffers)
        touched: dict[int, None] = {}  # in this order
        for number in self._in_order(possible):
            send = self._sends[number]
            slot = self._matching.slots[send.op]
            if send.dst == self._rank:
                self._matching.posted(number)
                self._answer((send.src, slot))
                touched[send.src] = None
            else:
                self._matching.has_data(number)
                self._notify(send.dst, Opcode.SEND_READY, send)
                self._queue_ready((send.dst, slot))
                touched[send.dst] = None
        is_offering = self._is_offering or bool(touched)
        for op, gap_ns in possible.gaps:
            if is_offering and op in self._in_turn:
                self._waiting.append((op, gap_ns))
            else:
                self._compute(op, gap_ns, since_ns or time.monotonic_ns())
        for number in possible.aggregations:
            self._times.begun_ns[number] = time.monotonic_ns()
            if self._delay_ns:
                self._after_delay(number, is_send=False)
            else:
                self._aggregating.begin(number, self._buffers)
        was_offering, self._is_offering = self._is_offering, is_offering
        for peer in touched:
            self._flush(self._connections[peer])
        self._is_offering = was_offering
        while self._waiting and not was_offering:
            self._compute(*self._waiting.pop(0), time.monotonic_ns())

    def _compute(self, op: int, gap_ns: int, begin_ns: int) -> None:
        if self._schedule.ops[op].kind == "compute":
            self._times.computing_ns[op] = begin_ns
        heapq.heappush(self._gaps, (begin_ns + gap_ns, op))

    def _in_order(self, possible: Possible) -> list[int]:
        """Receives and sends: operation by operation, and of each the receives first, as gloo posts them.

        All go onto the host's one link, where a notice behind the rank's own data would wait for them.
        """
        return sorted([*possible.receives, *possible.sends], key=lambda number: self._sends[number].op)

    def _aggregated(self, number: int) -> None:
        """The sum takes the place of what was given."""
        self._times.aggregated_ns[number] = time.monotonic_ns()
        result = self._aggregating.result(number)
        if result is not None:
            self._buffers[self._schedule.aggregations[number].op] = result
        self._do(self._state.aggregated(number))

    def _notify(self, peer: int, opcode: int, send: Send) -> None:
        preamble = encode_preamble(opcode, self._matching.slots[send.op], send.nbytes)
        self._connections[peer].queue_notice(preamble)

    def _answer(self, key: Key) -> None:
        """Announce the receives of a slot that may be announced."""
        for number in self._matching.answering(key):
            self._notify(key[0], Opcode.RECV_READY, self._sends[number])
            self._end_ready(number)

    def _queue_ready(self, key: Key) -> None:
        """Queue the sends of a slot that may leave, now or after their delay."""
        for number in self._matching.leaving(key):
            self._times.queued_ns[number] = time.monotonic_ns()
            if self._delay_ns:
                self._after_delay(number, is_send=True)
            else:
                self._offer(number)

    def _offer(self, number: int) -> None:
        """Queue a send, or let it leave when it is its turn."""
        op, dst = self._sends[number].op, self._sends[number].dst
        if self._outbox:
            self._outbox.offer((dst, self._matching.slots[op]), op, number)
        else:
            self._queue(number)

    def _queue(self, number: int) -> RankConnection:
        send = self._sends[number]
        self._log_access(send.op, is_over=False)
        data = self._buffers[send.op][send.offset : send.offset + send.nbytes]
        preamble = encode_preamble(Opcode.DATA, self._matching.slots[send.op], send.nbytes)
        connection = self._connections[send.dst]
        connection.queue_data(preamble, memoryview(data), number)  # type: ignore[arg-type]
        return connection

    def _end_ready(self, number: int) -> None:
        """One end of a receive has become ready for it."""
        if self._outbox:
            self._outbox.end_ready(number, self._sends[number].op, time.monotonic())

    def _leave(self) -> None:
        """Queue what leaves next, where sends of one operation are under way at a time.

        That is decided when all has been read that has come: a notice right behind data may let something
        newer go than these data.
        """
        while self._outbox and (number := self._outbox.next(time.monotonic())) is not None:
            self._flush(self._queue(number))

    def _flush(self, connection: RankConnection) -> None:
        self._flushed.add(connection)
        for number in connection.flush():
            self._times.handed_ns[number] = time.monotonic_ns()
            self._log_access(self._sends[number].op)
            if self._outbox:
                self._outbox.over(number)
            self._do(self._state.finished(number))
            if number in self._held:
                self._added(self._swapped[number], self._held.pop(number))

    def _receive(self, connection: RankConnection) -> None:
        while True:
            self._read_ns = time.monotonic_ns()
            if connection.in_body:
                if not connection.read_body():
                    return
                self._arrived(connection.peer)
                continue
            header = connection.read_header()
            if header is None:
                return
            key = (connection.peer, header.slot)
            if header.opcode == Opcode.RECV_READY:
                self._matching.announced(key)
                self._queue_ready(key)
                self._flush(connection)
            elif header.opcode == Opcode.SEND_READY:
                number = self._matching.asked(key)
                self._answer(key)
                self._flush(connection)
                if number is not None:
                    self._end_ready(number)
                    self._do(self._state.asked(number))
            elif header.opcode == Opcode.DATA:
                self._begin_body(connection, key, header.length)

    def _begin_body(self, connection: RankConnection, key: Key, length: int) -> None:
        number = self._matching.arriving(key, length)
        if number is None:
            raise PeerLost(
                f"rank {connection.peer} sent {length} bytes in slot {key[1]:#x}, which the plan does "
                f"not have"
            )
        self._answer(key)
        self._flush(connection)
        send = self._sends[number]
        self._receiving[connection.peer] = number
        if send.reduce:
            into = self._scratch[connection.peer][:length]
        else:
            begin = send.offset + send.shift
            into = self._buffers[send.op][begin : begin + length]
        connection.expect_body(memoryview(into))  # type: ignore[arg-type]

    def _arrived(self, peer: int) -> None:
        number = self._receiving.pop(peer)
        send = self._sends[number]
        self._times.arrived_ns[number] = self._read_ns
        if self._swapped.get(number) in self._state.unfinished:  # ours still reads what this adds to
            self._held[self._swapped[number]] = self._scratch[peer][: send.nbytes].copy()
        elif send.reduce:
            self._added(number, self._scratch[peer], self._read_ns)
        else:
            self._received(number, self._read_ns)

    def _added(self, number: int, data: NDArray[np.uint8], since_ns: int | None = None) -> None:
        send = self._sends[number]
        op, buffer = self._schedule.ops[send.op], self._buffers[send.op]
        if op.contract.merges:
            merge_pairs(buffer[: op.nbytes], data[: op.nbytes])
        else:
            payload.add(buffer, send, data, op.dtype)
        self._log_access(send.op)
        self._received(number, since_ns)

    def _received(self, number: int, since_ns: int | None) -> None:
        if self._outbox:
            self._outbox.came(self._sends[number].op, time.monotonic())
        self._do(self._state.finished(number), since_ns)

    def _log_access(self, op: int, *, is_over: bool = True) -> None:
        if self._schedule.ops[op].centre is not None and self._schedule.centre_of(op).rank == self._rank:
            self._own.accesses.append(centre_values.Access(op, is_over))
