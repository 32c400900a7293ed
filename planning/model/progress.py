"""A schedule under way: what has become ready, is being sent, has ended; and what ranks handle when.

A send becomes ready when what it waits for has ended (see traces.schedules.schedule: `needs` and gates at its
source, `ready` and gates at its destination).  The sends of one connection and direction then leave
one after the other, as bytes of one TCP stream do.

An aggregation is one flow on all links of its tree at once.  It is ready when all its members' gates are open
and the one before in its reduce group has become ready; those of a group take their tree one after the other.
What its operation sends at a member waits for it.

A message that takes a lock waits for that where it is received (traces.schedules.locks): with notices its
receiver announces it then, without them it begins then, and asks when nothing else holds it.  A message that
frees a lock does so at its source, when TCP has taken it; without locks and without hosts there
are no sockets' buffers, and a send is over for its source when it has arrived.

Hosts cost nothing unless their costs are given (planning.model.hosts).  With costs, a receiver says that it
is ready in a message of its own, a notice, which the sender has to handle before the data leave.  Data that
have come in wait for a processor as well, before what needs them goes on.  So with several sends in flight
the costs overlap as in the real protocol.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from heapq import heappop, heappush
from math import inf

from gradwire.planning.model.dag import NO_FLOW, Item, ordered, waiting_at
from gradwire.planning.model.hosts import HostCosts, Processors, Work
from gradwire.planning.model.network import EventKind, Network, NetworkEvent
from gradwire.planning.model.notices import Notices
from gradwire.planning.model.segments import SAME_TIME_S
from gradwire.traces.schedules.locks import Queues
from gradwire.traces.schedules.outbox import NEWEST_FIRST, PATIENCE_S, Outbox
from gradwire.traces.schedules.schedule import Gate, Schedule

# An aggregation goes up and down its tree twice before its first elements are added up: the largest exponents
# are agreed on, then the first chunk has to be back.  Later chunks follow without a pause.
ROUNDS = 2
# What timers are for, and what their number is: an item (ARRIVE, NOTICE, QUEUE_SEND, ASKED), a gate
# (OPEN_GATE) or a rank (WORKED, LEAVE).  A rank handles ARRIVE, NOTICE, ASKED and, without a timer, START.
ARRIVE, NOTICE, OPEN_GATE, QUEUE_SEND, WORKED, START, ASKED, LEAVE = range(8)
Lane = tuple[int, int, int]  # source, destination, slot
RECEIVER_READY, SENDER_READY, DATA = range(3)  # what the network is handed, in this order


class Progress:
    """A schedule under way on a network: what has ended, what is being sent, what waits for what.

    `items` are the schedule's sends and then its aggregations, numbered in this order; `flow_of` is the
    number of the flow from one rank to another.  A *part* is one operation at one rank; it is complete when
    all its sends and its aggregation there have ended and all its gates are open.

    `ready_s` and `ends_s` are when each item became ready and ended, `opened_s` when each gate opened, in
    seconds from the start; -1 for what has not happened yet.
    """

    def __init__(
        self,
        schedule: Schedule,
        items: Sequence[Item],
        network: Network,
        alpha_s: float,
        hosts: HostCosts | None,
        flow_of: Mapping[tuple[int, int], int],
    ) -> None:
        self._schedule = schedule
        self._items = items
        self._alpha_s = alpha_s
        self._n_sends = len(schedule.sends)
        self._hosts = hosts
        self._processors = Processors(hosts.n_cpus, hosts.seed, hosts.wake_s) if hosts else None
        self._working: dict[int, Work] = {}  # by rank
        self._now_s = 0.0
        self._timers: list[tuple[float, int, int]] = []  # (when, what for, its number)
        self._handing: list[tuple[int, int, int]] = []  # to the network, now: (operation, what, item)
        self.ends_s = [-1.0] * len(items)
        self.ready_s = [-1.0] * len(items)
        self.opened_s = [-1.0] * len(schedule.gates)
        self._network = network
        self._flow_of = flow_of
        self._order = ordered(schedule, items, notices=hosts is not None)
        self._waits = list(self._order.waits)  # what each item still waits for
        self._noticed = [hosts is None] * self._n_sends  # the receiver is known to be ready
        lanes = {self._lane(number) for number in range(self._n_sends)} if hosts else set[Lane]()
        self._notices = Notices({(a, b, slot) for a, b, slot in lanes if (b, a, slot) in lanes})
        self._noticed_s: dict[Lane, float] = {}  # when the last came
        self._outboxes = self._made_outboxes()
        self._changed: dict[int, None] = {}  # ranks whose outboxes have
        self._queues = Queues(schedule.locks)
        self._taking = self._link_locks()
        self._held_of = {op: number for number, op in self._taking.items()}
        gates = self._link_gates()
        ready = [number for number, waits in enumerate(self._waits) if waits == (number in self._taking)]
        offered = [number for number in range(self._n_sends) if self._is_ready(number)]
        self._at_start = (ready, offered, gates)
        if hosts is None:
            self._start()
        else:
            self._start_ranks(hosts)

    def _start(self, rank: int | None = None) -> None:
        """What waits for nothing becomes possible, everywhere or at one rank."""
        ready, offered, gates = self._at_start
        for number in ready:
            if rank is None or self._rank_of(number) == rank:
                self._go_on(number)
        for number in gates:
            if rank is None or self._schedule.gates[number].rank == rank:
                self._set_gate_timer(number)
        for number in offered:
            if rank is None or self._rank_of(number) == rank:
                self._say_ready(number)

    def _start_ranks(self, hosts: HostCosts) -> None:
        for rank in range(self._schedule.n_ranks):
            self._work(rank, Work(START, rank, hosts.start_s))

    def _rank_of(self, number: int) -> int:
        """Where it is decided that it may leave; of a notice that is the receiver of its send."""
        if number < len(self._items):
            return self._items[number].ranks[0]
        return self._items[number - len(self._items)].ranks[1]

    def _link_gates(self) -> list[int]:
        """Returns the gates that wait for nothing but their gap."""
        gates = self._schedule.gates
        self._part_left = Counter({part: len(items) for part, items in self._order.parts.items()})
        self._part_left.update((gate.op, gate.rank) for gate in gates)
        self._opened_by: defaultdict[tuple[int, int], list[int]] = defaultdict(list)
        self._gate_waits = [0] * len(gates)
        for number, gate in enumerate(gates):
            for other in gate.after:
                if self._part_left[other, gate.rank]:
                    self._opened_by[other, gate.rank].append(number)
                    self._gate_waits[number] += 1
            for held in self._held_by(gate):
                self._waits[held] += 1
        return [number for number, waits in enumerate(self._gate_waits) if not waits]

    def _made_outboxes(self) -> list[Outbox] | None:
        """One for each rank if sends leave newest first."""
        if self._schedule.order != NEWEST_FIRST:
            return None
        ops: list[list[int]] = [[] for _ in range(self._schedule.n_ranks)]
        for item in self._items[: self._n_sends]:
            ops[item.ranks[0]].append(item.op)
        return [Outbox(each, PATIENCE_S if self._hosts else 0.0) for each in ops]

    def _link_locks(self) -> dict[int, int]:
        """Returns the operations that take locks, by the number of what then waits for the lock."""
        takes = [number for number, item in enumerate(self._items) if item.op in self._queues]
        held = [
            waiting_at(
                number, self._items[number].ranks[1], self._items, self._n_sends, self._hosts is not None
            )
            for number in takes
        ]
        for number in held:
            self._waits[number] += 1
        return {number: self._items[take].op for number, take in zip(held, takes, strict=True)}

    def _held_by(self, gate: Gate) -> list[int]:
        return [
            waiting_at(number, gate.rank, self._items, self._n_sends, self._hosts is not None)
            for number in self._order.parts.get((gate.op, gate.rank), ())
        ]

    def step(self) -> bool:
        """Go on to the next thing that happens; False when nothing will."""
        while self._timers and self._timers[0][0] <= self._now_s + SAME_TIME_S:
            _, kind, number = heappop(self._timers)
            self._happen(kind, number)
        self._leave()
        self._hand_over()
        until_s = self._timers[0][0] if self._timers else inf
        now_s, events = self._network.advance(self._now_s, until_s)
        if now_s == inf:
            return False
        self._now_s = now_s
        self._carry_on(events)
        return True

    def _happen(self, kind: int, number: int) -> None:
        if kind == OPEN_GATE:
            self._open(number)
        elif kind == QUEUE_SEND:
            self._queue(number)
        elif kind == LEAVE:
            self._changed[number] = None
        elif self._hosts and kind == ARRIVE:
            self._work(self._items[number].ranks[1], Work(ARRIVE, number, self._hosts.message_s))
        elif self._hosts and kind == NOTICE:
            self._take_notice(self._hosts, number)
        elif self._hosts and kind == ASKED:
            self._work(self._items[number].ranks[1], Work(ASKED, number, self._hosts.message_s))
        else:
            self._worked(number)

    def _work(self, rank: int, work: Work) -> None:
        """Let a rank handle something as soon as it has a processor."""
        assert self._processors
        self._processors.add(rank, work)
        self._begin_work()

    def _begin_work(self) -> None:
        assert self._processors
        for rank, work in self._processors.begun(self._now_s):
            self._working[rank] = work
            heappush(self._timers, (self._now_s + work.work_s, WORKED, rank))

    def _worked(self, rank: int) -> None:
        """A rank has handled something: what follows of it is possible, and the next has its turn."""
        assert self._processors
        kind, number, _ = self._working.pop(rank)
        if kind == ARRIVE:
            self._announce(self._notices.came(self._lane(number)))
            self.ends_s[number] = self._now_s
            self._came(number)
            self._released_at(number, rank)
        elif kind == NOTICE:
            self._noticed[number] = True
            self._count_down(number)
        elif kind == ASKED and (op := self._items[number].op) in self._queues:
            self._grant(self._queues.ask(op))
        elif kind == ASKED:
            self._count_down(number + len(self._items))
        else:
            self._start(rank)
        self._processors.end(rank, self._now_s)
        self._begin_work()

    def _queue(self, number: int) -> None:
        op, ranks, nbytes, flow = self._items[number]
        if flow == NO_FLOW:
            self._end(number)
        elif self._outboxes and number < self._n_sends:
            self._outboxes[ranks[0]].offer(self._slot(number), op, number)
            self._changed[ranks[0]] = None
        elif self._hosts:
            self._handing.append((op, DATA, number))
        else:
            self._carry_on(self._network.add(flow, number, nbytes, self._now_s))

    def _lane(self, number: int) -> Lane:
        return self._items[number].ranks[0], *self._slot(number)

    def _slot(self, number: int) -> tuple[int, int]:
        """Sends of one slot leave in their order: those of a collective, or messages of one tag."""
        op, ranks, _, _ = self._items[number]
        made = self._schedule.ops[op]
        return ranks[1], -1 - op if made.contract.is_collective else made.tag

    def _leave(self) -> None:
        """Let each rank begin the sends that leave next, where those of one operation are under way."""
        while self._outboxes and self._changed:
            rank, _ = self._changed.popitem()
            outbox = self._outboxes[rank]
            while (number := outbox.next(self._now_s)) is not None:
                op, _, nbytes, flow = self._items[number]
                if self._hosts:
                    self._handing.append((op, DATA, number))
                else:
                    self._carry_on(self._network.add(flow, number, nbytes, self._now_s))
            if outbox.ask_again_s < inf:
                heappush(self._timers, (outbox.ask_again_s, LEAVE, rank))

    def _end_ready(self, number: int) -> None:
        """One end of a send has become ready for it."""
        if self._outboxes:
            op, ranks, _, _ = self._items[number]
            self._outboxes[ranks[1]].end_ready(number, op, self._now_s)

    def _came(self, number: int) -> None:
        if self._outboxes and number < self._n_sends:
            op, ranks, _, _ = self._items[number]
            self._outboxes[ranks[1]].came(op, self._now_s)
            self._changed[ranks[1]] = None

    def _hand_over(self) -> None:
        """Hand the network what ranks send at one instant, as the agents do: operation by operation, and of
        each first that they are ready to receive.
        """
        handing, self._handing = sorted(self._handing), []
        for _, what, number in handing:
            _, ranks, nbytes, flow = self._items[number]
            if what == DATA:
                self._carry_on(self._network.add(flow, number, nbytes, self._now_s))
            elif what == SENDER_READY:
                self._carry_on(self._network.sender_ready(flow, number))
            elif (back := self._flow_of.get((ranks[1], ranks[0]))) is None:
                self._announced(number)
            else:
                self._carry_on(self._network.receiver_ready(back, number))

    def _carry_on(self, events: Iterable[NetworkEvent]) -> None:
        """Let what waits for items that have arrived, or that TCP has taken, go on."""
        for what, number in events:
            if what is EventKind.TAKEN and self._outboxes and number < self._n_sends:
                self._outboxes[self._items[number].ranks[0]].over(number)
                self._changed[self._items[number].ranks[0]] = None
            if what is EventKind.ARRIVED:
                self._end(number)
            elif what is EventKind.NOTICE:
                self._announced(number)
            elif what is EventKind.ASKED:
                self._asked(number)
            elif self._hosts and number < self._n_sends:
                self._released_at(number, self._items[number].ranks[0])
            elif self._schedule.locks and number < self._n_sends:
                self._finish_one(self._items[number].op, self._items[number].ranks[0])

    def _end(self, number: int) -> None:
        if self._hosts and number < self._n_sends:
            heappush(self._timers, (self._now_s + self._hosts.wire_s, ARRIVE, number))
            return
        self.ends_s[number] = self._now_s
        self._came(number)
        for other in self._order.released_by[number]:
            self._release(other)
        op, ranks, _, _ = self._items[number]
        is_over = self._schedule.locks and number < self._n_sends  # for its source, since TCP took it
        for rank in ranks[1:] if is_over else ranks:
            self._finish_one(op, rank)

    def _released_at(self, number: int, rank: int) -> None:
        """An item has ended at one of its ranks."""
        for other in self._order.released_by[number]:
            if self._rank_of(other) == rank:
                self._release(other)
        self._finish_one(self._items[number].op, rank)

    def _open(self, number: int) -> None:
        gate = self._schedule.gates[number]
        self.opened_s[number] = self._now_s
        for held in self._held_by(gate):
            self._release(held)
        self._finish_one(gate.op, gate.rank)

    def _finish_one(self, op: int, rank: int) -> None:
        self._part_left[op, rank] -= 1
        if not self._part_left[op, rank]:
            self._grant(self._queues.complete(op, rank))
            for gate in self._opened_by[op, rank]:
                self._gate_waits[gate] -= 1
                if not self._gate_waits[gate]:
                    self._set_gate_timer(gate)

    def _set_gate_timer(self, number: int) -> None:
        gap_ns = self._schedule.gates[number].gap_ns
        late_s = self._processors.computed_late_s() if self._processors and gap_ns else 0.0
        when_s = self._now_s + gap_ns / 1e9 + late_s
        heappush(self._timers, (when_s, OPEN_GATE, number))

    def _release(self, number: int) -> None:
        self._count_down(number)
        if self._hosts and number < self._n_sends:
            self._say_ready(number)

    def _count_down(self, number: int) -> None:
        self._waits[number] -= 1
        if self._waits[number] <= (number in self._taking):
            self._go_on(number)

    def _go_on(self, number: int) -> None:
        """Something waits for nothing any more, or for nothing but its lock."""
        if not self._waits[number]:
            self._make_ready(number)
            return
        op = self._taking[number]
        if not self._hosts:
            self._grant(self._queues.ask(op))
        self._grant(self._queues.prepare(op))

    def _grant(self, op: int | None) -> None:
        """An operation has got its lock, if any has."""
        if op is not None:
            self._count_down(self._held_of[op])

    def _say_ready(self, number: int) -> None:
        """Let a source that has become ready to send say so, whether its receiver is ready or not."""
        flow = self._items[number].flow
        if self._is_ready(number) and flow != NO_FLOW:
            self._handing.append((self._items[number].op, SENDER_READY, number))

    def _is_ready(self, number: int) -> bool:
        """Whether a send waits for nothing at its source."""
        return self._waits[number] == int(not self._noticed[number])

    def _make_ready(self, number: int) -> None:
        ready = [number]
        while ready:
            number = ready.pop()
            if (item := number - len(self._items)) >= 0:
                self._announce(self._notices.ready(self._lane(item), item))
            else:
                heappush(self._timers, self._leaving(number))
            for following in self._order.follows[number]:
                self._waits[following] -= 1
                if not self._waits[following]:
                    ready.append(following)

    def _leaving(self, number: int) -> tuple[float, int, int]:
        """The timer of what has become ready."""
        if number < len(self._items):
            self.ready_s[number] = self._now_s
        alpha_s = ROUNDS * self._alpha_s
        if number < self._n_sends:
            alpha_s = 0.0 if self._hosts else self._alpha_s
            if not self._hosts and self._outboxes:
                self._outboxes[self._items[number].ranks[1]].coming(self._items[number].op, self._now_s)
        return self._now_s + self._schedule.send_delay_ns / 1e9 + alpha_s, QUEUE_SEND, number

    def _asked(self, item: int) -> None:
        """The source of a send has said that it is ready: a receiver with a rendezvous, or a lock, waits for
        that.
        """
        op = self._items[item].op
        self._end_ready(item)
        if self._hosts and (self._schedule.ops[op].rendezvous or op in self._queues):
            heappush(self._timers, (self._now_s + self._hosts.wire_s, ASKED, item))

    def _announce(self, items: Iterable[int]) -> None:
        for item in items:
            self._handing.append((self._items[item].op, RECEIVER_READY, item))
            self._end_ready(item)

    def _take_notice(self, hosts: HostCosts, send: int) -> None:
        """The source handles notices of one slot that come together as if they were one."""
        lane = self._lane(send)
        is_first = self._noticed_s.get(lane, -inf) < self._now_s - SAME_TIME_S
        self._noticed_s[lane] = self._now_s
        self._work(lane[0], Work(NOTICE, send, hosts.message_s if is_first else 0.0))

    def _announced(self, item: int) -> None:
        assert self._hosts
        heappush(self._timers, (self._now_s + self._hosts.wire_s, NOTICE, item))
