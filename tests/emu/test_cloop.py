"""The loop in C does what the one in Python does."""

import ctypes
import random
import signal
import socket
import struct
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import replace

import numpy as np
import pytest

from gradwire.emu.replay import clayout, payload
from gradwire.emu.replay.aggregating import Aggregating
from gradwire.emu.replay.board import FinishLine
from gradwire.emu.replay.clayout import ADDING, library
from gradwire.emu.replay.cloop import CompiledLoop, is_for
from gradwire.emu.replay.connection import PeerLost, RankConnection
from gradwire.emu.replay.loop import Loop
from gradwire.emu.replay.outcome import RankTimes
from gradwire.emu.replay.rankrepeat import RankRepeat
from gradwire.emu.replay.state import Possible, RankState
from gradwire.planning.plan import Plan
from gradwire.traces.framing.gloo import PREAMBLE_NBYTES, Opcode, encode_preamble
from gradwire.traces.making.collectives import made_allreduce
from gradwire.traces.schedules.dtypes import DTYPES, DType
from gradwire.traces.schedules.expand import expand
from gradwire.traces.schedules.pacing import ANNOUNCED_AHEAD
from gradwire.traces.schedules.schedule import LIBRARY_NS, Gate, Op, Schedule
from gradwire.traces.schedules.sends import Send
from gradwire.traces.workload import Start
from tests.made_plans import schedule_plan, unchecked_plan
from tests.made_servers import first_come_job

MADE: list[tuple[int, str]] = [
    (2, "ring"),
    (5, "ring"),
    (20, "ring"),  # of more steps than are announced ahead
    (8, "halving-doubling"),
    (6, "halving-doubling"),
    (5, "recursive-doubling"),
    (4, "all-pairs"),
    (6, "tree:chains"),
    (7, "double-binary-tree"),
    (4, "ps:servers=2"),
]


def scheduled(n_ranks: int, name: str) -> Schedule:
    """Two allreduces of which the second is computed for a while, and gates that open after computing."""
    one = expand(made_allreduce(n_ranks, 4004), name)
    gates = tuple(Gate(0, rank, (), 200_000 * rank) for rank in range(one.n_ranks))
    return replace(one, gates=gates)


def own_of(plan: Plan, rank: int, connections: list[RankConnection]) -> RankRepeat:
    return RankRepeat.of(plan, rank, 0, connections, None)


class Wire:
    """Both ends of a connection, with a thread each way that passes on and keeps what it has passed."""

    def __init__(self) -> None:
        self.outer, self._inner = zip(*(socket.socketpair() for _ in range(2)), strict=True)
        self.passed = [bytearray(), bytearray()]
        for way in (0, 1):
            threading.Thread(target=self._pass, args=(way,), daemon=True).start()

    def _pass(self, way: int) -> None:
        while data := self._inner[way].recv(1 << 16):
            self.passed[way] += data
            self._inner[1 - way].sendall(data)
        self._inner[1 - way].close()


def carried_out(
    plan: Plan, made: Callable[[RankRepeat], object]
) -> tuple[list[RankRepeat], dict[tuple[int, int], list[tuple[int, ...]]]]:
    """All ranks' loops, each a thread; what they leave, and the messages of each way in order."""
    wires = {pair: Wire() for pair in {tuple(sorted(pair)) for pair in plan.schedule.sends.pairs()}}
    ends: dict[int, list[RankConnection]] = {rank: [] for rank in range(plan.n_ranks)}
    for (low, high), wire in wires.items():
        for sock, rank, peer in ((wire.outer[0], low, high), (wire.outer[1], high, low)):
            sock.settimeout(0)
            ends[rank].append(RankConnection(sock, peer))
    all_ranks = [own_of(plan, rank, ends[rank]) for rank in range(plan.n_ranks)]
    loops = [made(each) for each in all_ranks]
    start_ns = time.monotonic_ns() + 5_000_000
    threads = [threading.Thread(target=loop.run, args=(start_ns,)) for loop in loops]  # type: ignore[attr-defined]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    for loop in loops:
        if isinstance(loop, CompiledLoop):
            loop.keep_times()
    time.sleep(0.01)  # what was sent last is passed on
    messages = {}
    for (low, high), wire in wires.items():
        messages[low, high], messages[high, low] = map(messages_of, wire.passed)
        for sock in wire.outer:
            sock.close()
    return all_ranks, messages


def messages_of(data: bytes | bytearray) -> list[tuple[int, ...]]:
    """(opcode, slot, length) of each."""
    found: list[tuple[int, ...]] = []
    at = 0
    while at < len(data):
        nbytes, opcode, slot, _, length, _ = struct.unpack_from("<6Q", data, at)
        found.append((opcode, slot, length))
        at += nbytes
    return found


@pytest.mark.parametrize(("n_ranks", "name"), MADE)
def test_both_loops_add_up_the_same_and_say_the_same_to_each_rank(n_ranks: int, name: str) -> None:
    schedule = scheduled(n_ranks, name)
    plan = schedule_plan(f"star:hosts={schedule.n_ranks}", schedule)
    assert is_for(schedule)
    in_c, said_in_c = carried_out(plan, CompiledLoop)
    in_python, said = carried_out(plan, lambda each: Loop(each, Aggregating(plan, each.rank, ())))
    for one, other in zip(in_c, in_python, strict=True):
        assert payload.count_wrong(schedule, one.rank, one.buffers) == 0
        assert {op: each.tobytes() for op, each in one.buffers.items()} == {
            op: each.tobytes() for op, each in other.buffers.items()
        }
        assert one.times.queued_ns.keys() == other.times.queued_ns.keys()
        assert one.times.arrived_ns.keys() == other.times.arrived_ns.keys()
    for way, messages in said_in_c.items():
        for opcode in Opcode:
            assert [each for each in messages if each[0] == opcode] == [
                each for each in said[way] if each[0] == opcode
            ]


@pytest.mark.long
def test_both_loops_serve_workers_one_by_one_and_in_the_order_in_which_they_ask() -> None:
    """Workers 1 to 4 ask 20 ms after each other, and all before 100 ms have been computed for the first."""
    job, served = first_come_job([[20, 0], [40], [60], [80]], 100)
    schedule = expand(job)
    plan = schedule_plan("star:hosts=5", schedule)
    of_push = {each.push: each for each in served}
    for made in (CompiledLoop, lambda each: Loop(each, Aggregating(plan, each.rank, ()))):
        server, *_ = (each for each in carried_out(plan, made)[0] if each.rank == 0)
        came_ns = {
            send: ns for send, ns in server.times.arrived_ns.items() if schedule.sends[send].op in of_push
        }
        in_order = sorted(came_ns, key=lambda send: came_ns[send])
        assert [of_push[schedule.sends[send].op].worker for send in in_order] == [1, 2, 3, 4, 1]
        apart_ns = np.diff([came_ns[send] for send in in_order])
        assert (apart_ns >= 100_000_000).all()
        for (
            send,
            ns,
        ) in came_ns.items():  # what is computed for a push follows it, and begins when it was there
            assert server.times.computing_ns[schedule.sends[send].op + 1] == ns


@pytest.mark.parametrize("dtype", DTYPES)
def test_halves_of_a_swap_that_cross_while_both_are_still_being_sent_add_up(dtype: DType) -> None:
    """Of 8 MiB a socket takes a part at a time, so what comes in is added behind what has left."""
    schedule = expand(made_allreduce(2, 8 << 20), "halving-doubling", wire=dtype)
    both = expand(made_allreduce(2, 8 << 20), "recursive-doubling", wire=dtype)
    for each in (schedule, both):
        all_ranks, _ = carried_out(schedule_plan("star:hosts=2", each), CompiledLoop)
        assert [payload.count_wrong(each, own.rank, own.buffers) for own in all_ranks] == [0, 0]


ALL_READY_NS = 50_000_000  # by then the other ranks' notices have come, on a busy machine too
BOTH_LOOPS = pytest.mark.parametrize("in_c", [True, False], ids=["c", "python"])


def loop_made(plan: Plan, *, in_c: bool) -> Callable[[RankRepeat], object]:
    return CompiledLoop if in_c else lambda each: Loop(each, Aggregating(plan, each.rank, ()))


@pytest.mark.parametrize(
    ("gap_ns", "most_ns", "waits"),
    [(LIBRARY_NS, LIBRARY_NS, True), (LIBRARY_NS + 1, 10**9, False), (LIBRARY_NS, None, False)],
    ids=["library", "computing", "not from a queue"],
)
@BOTH_LOOPS
def test_a_library_writes_one_message_after_the_other(
    gap_ns: int, most_ns: int | None, waits: bool, in_c: bool
) -> None:
    """Rank 0 computes, sends to ranks 1 and 2, computes for `gap_ns` from then on, and sends to rank 3."""
    ops = (Op("compute", 0), *[Op("message", 4_000)] * 2, Op("compute", 0), Op("message", 4_000))
    sends = tuple(Send(op, 0, dst, 0, 4_000, False) for op, dst in ((1, 1), (2, 2), (4, 3)))
    gates = (
        Gate(0, 0, (), ALL_READY_NS),
        *(Gate(op, 0, (0,)) for op in (1, 2)),
        Gate(3, 0, (0,), gap_ns, most_ns),
        Gate(4, 0, (3,)),
    )
    plan = schedule_plan("star:hosts=4", replace(Schedule.of(4, ops, sends), gates=gates))
    times = carried_out(plan, loop_made(plan, in_c=in_c))[0][0].times
    assert times.handed_ns.keys() == {0, 1, 2}
    assert (times.computing_ns[3] >= max(times.handed_ns[0], times.handed_ns[1])) == waits
    assert times.computed_ns[3] >= times.computing_ns[3] + gap_ns


@BOTH_LOOPS
def test_also_what_follows_a_message_that_was_handed_waits_for_the_others(in_c: bool) -> None:
    """The gap after the message to rank 1 begins when the kernel was offered that to rank 2 as well."""
    ops = (Op("compute", 0), *[Op("message", 4_000)] * 2, Op("compute", 0), Op("message", 4_000))
    sends = tuple(Send(op, 0, dst, 0, 4_000, False) for op, dst in ((1, 1), (2, 2), (4, 3)))
    gates = (
        Gate(0, 0, (), ALL_READY_NS),
        *(Gate(op, 0, (0,)) for op in (1, 2)),
        Gate(3, 0, (1,), 100_000, 100_000),
        Gate(4, 0, (3,)),
    )
    plan = schedule_plan("star:hosts=4", replace(Schedule.of(4, ops, sends), gates=gates))
    times = carried_out(plan, loop_made(plan, in_c=in_c))[0][0].times
    assert times.computing_ns[3] >= times.handed_ns[1]


@pytest.mark.long
@BOTH_LOOPS
def test_what_is_computed_piece_by_piece_does_not_drift(in_c: bool) -> None:
    """100 pieces of 0.3 ms, with a message after each, from which nothing but the next piece follows."""
    n = 100
    ops = tuple(op for _ in range(n) for op in (Op("compute", 0), Op("message", 4_000)))
    sends = tuple(Send(2 * k + 1, 0, 1, 0, 4_000, False) for k in range(n))
    gates = tuple(
        gate
        for k in range(n)
        for gate in (Gate(2 * k, 0, (2 * k - 2,) if k else (), 300_000), Gate(2 * k + 1, 0, (2 * k,)))
    )
    plan = schedule_plan("star:hosts=2", replace(Schedule.of(2, ops, sends), gates=gates))
    times = carried_out(plan, loop_made(plan, in_c=in_c))[0][0].times
    begins_ns = np.diff([times.computing_ns[2 * k] for k in range(n)])
    assert begins_ns.sum() == 300_000 * (n - 1)


@pytest.mark.parametrize(("n_ranks", "name"), MADE)
def test_no_send_leaves_before_what_it_waits_for_is_there(n_ranks: int, name: str) -> None:
    schedule = scheduled(n_ranks, name)
    all_ranks, _ = carried_out(schedule_plan(f"star:hosts={schedule.n_ranks}", schedule), CompiledLoop)
    times: list[RankTimes] = [each.times for each in all_ranks]
    for number, send in enumerate(schedule.sends):
        queued_ns = times[send.src].queued_ns[number]
        over_ns = [
            times[send.src].arrived_ns.get(other) or times[send.src].handed_ns[other] for other in send.needs
        ]
        assert queued_ns >= max(over_ns, default=0)
        assert queued_ns - times[send.src].start_ns >= 200_000 * send.src or send.needs
        assert times[send.dst].arrived_ns[number] >= queued_ns


def loop_of(plan: Plan, rank: int) -> CompiledLoop:
    """Without connections that are open: it is asked what it may do, and runs nothing."""
    pairs = plan.schedule.sends.pairs()
    peers = {dst for src, dst in pairs if src == rank} | {src for src, dst in pairs if dst == rank}
    sockets = [socket.socket() for _ in peers]
    loop = CompiledLoop(own_of(plan, rank, list(map(RankConnection, sockets, sorted(peers)))))
    for sock in sockets:
        sock.close()
    return loop


def taken(loop: CompiledLoop) -> tuple[list[int], list[int], list[int]]:
    """(sends, receives, gaps) that C says have become possible, by their numbers in the schedule."""
    rank = loop.rank
    possible = (ctypes.c_int32 * rank.n_possible).from_address(rank.possible)[:]
    gaps = (ctypes.c_int32 * rank.n_gaps).from_address(rank.gaps)[:]
    rank.n_possible = rank.n_gaps = 0
    sends = [number for number in possible if loop.transfers["is_send"][number]]
    receives = [number for number in possible if not loop.transfers["is_send"][number]]
    numbers = loop.numbers
    return numbers[sends].tolist(), numbers[receives].tolist(), [int(loop.op_numbers[op]) for op in gaps]


def of(possible: Possible) -> tuple[list[int], list[int], list[int]]:
    return possible.sends, possible.receives, [op for op, _ in possible.gaps]


@pytest.mark.parametrize("seed", range(20))
def test_in_whatever_order_things_happen_the_same_becomes_possible(seed: int) -> None:
    draw = random.Random(seed)
    n_ranks, name = draw.choice(MADE)
    ops = draw.randint(1, 3)
    parts = [expand(made_allreduce(n_ranks, 400), name) for _ in range(ops)]
    schedule = joined(parts, draw)
    compare_what_becomes_possible(schedule, draw.randrange(schedule.n_ranks), draw)


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("rank", [0, 1])
def test_whoever_asks_first_the_same_gets_the_lock(seed: int, rank: int) -> None:
    draw = random.Random(seed)
    times_ms = [[draw.choice((0, 1)) for _ in range(draw.randint(1, 4))] for _ in range(draw.randint(1, 4))]
    job, served = first_come_job(times_ms, draw.choice((0, 1)))
    items = list(job.items)
    for number, each in enumerate(served):  # the server is ready for some only when it has answered others
        answered = [other.answer for other in served[:number] if other.worker != each.worker]
        if answered and draw.random() < 0.6:
            ready = Start(rank=0, after=(draw.choice(answered),))
            items[each.push] = items[each.push].model_copy(update={"ready": ready})
    compare_what_becomes_possible(expand(job.model_copy(update={"items": tuple(items)})), rank, draw)


def compare_what_becomes_possible(schedule: Schedule, rank: int, draw: random.Random) -> None:
    """To a rank in C and to one in Python, of which each thing that may happen next happens at random."""
    plan = schedule_plan(f"star:hosts={schedule.n_ranks}", schedule)
    loop, state = loop_of(plan, rank), RankState(plan.schedule, rank)
    here = {int(number): place for place, number in enumerate(loop.numbers)}
    op_here = {int(op): place for place, op in enumerate(loop.op_numbers)}
    library().rank_begin(loop.rank)
    happened, said = state.begin(), taken(loop)
    under_way: list[tuple[str, int]] = [
        ("asked", number) for number in here if schedule.sends[number].dst == rank
    ]
    while True:
        assert tuple(map(sorted, said)) == tuple(map(sorted, of(happened)))
        sends, receives, gaps = said
        under_way += [("opened", op) for op in gaps] + [("finished", number) for number in sends + receives]
        if not under_way:
            break
        what, number = under_way.pop(draw.randrange(len(under_way)))
        place = op_here[number] if what == "opened" else here[number]
        getattr(library(), f"rank_{what}")(loop.rank, place)
        happened = getattr(state, what)(number)
        said = taken(loop)
    assert state.is_done
    assert (loop.rank.n_unfinished, loop.rank.n_uncomputed, loop.rank.n_done) == (0, 0, state.n_done)


def joined(parts: list[Schedule], draw: random.Random) -> Schedule:
    """One after the other at some ranks, with computing between them."""
    n_ranks, n_ops = parts[0].n_ranks, sum(len(part.ops) for part in parts)
    ops: list[Op] = [op for part in parts for op in part.ops]
    sends: list[Send] = []
    for place, part in enumerate(parts):
        first, first_op = len(sends), sum(len(each.ops) for each in parts[:place])
        sends += [
            replace(
                send,
                op=send.op + first_op,
                needs=tuple(number + first for number in send.needs),
                ready=tuple(number + first for number in send.ready),
            )
            for send in part.sends
        ]
    ops += [Op("compute", 0, root=rank) for rank in range(n_ranks)]
    gates = [Gate(n_ops + rank, rank, (0,), draw.randint(1, 5)) for rank in range(n_ranks)]
    gates += [
        Gate(op, rank, tuple(range(op)), draw.choice((0, 3)))
        for op in range(1, n_ops)
        for rank in range(n_ranks)
        if draw.random() < 0.7
    ]
    return Schedule.of(n_ranks, tuple(ops), tuple(sends), tuple(gates))


@pytest.mark.parametrize("dtype", DTYPES)
def test_c_adds_all_numbers_of_a_type_as_numpy_does(dtype: DType) -> None:
    numbers = payload.number_type(dtype)
    bits = np.random.default_rng(1).integers(0, 1 << (8 * numbers.itemsize), 1 << 18, dtype=np.uint64)
    one = bits.astype(f"u{numbers.itemsize}")
    if numbers.itemsize == 2:
        one = np.tile(np.arange(1 << 16, dtype=np.uint16), 4)
    other = np.random.default_rng(2).permutation(one)
    with np.errstate(all="ignore"):
        due = one.view(numbers).astype(np.float32) + other.view(numbers).astype(np.float32)
        due = due.astype(numbers)
    made = one.copy()
    library().add_up(made.ctypes.data, other.ctypes.data, made.nbytes, ADDING[dtype])
    is_number = ~np.isnan(due.astype(np.float32))
    assert np.array_equal(made.view(numbers)[is_number], due[is_number])
    assert np.isnan(made.view(numbers)[~is_number].astype(np.float32)).all()


def hostile(data: bytes) -> str:
    """What a rank that receives 100 bytes says of a peer that sends these."""
    schedule = Schedule.of(2, (Op("message", 100),), (Send(0, 0, 1, 0, 100, False),))
    plan = schedule_plan("star:hosts=2", schedule)
    ours, theirs = socket.socketpair()
    ours.settimeout(0)
    theirs.sendall(data)
    theirs.shutdown(socket.SHUT_WR)
    try:
        CompiledLoop(own_of(plan, 1, [RankConnection(ours, 0)])).run(time.monotonic_ns())
    except PeerLost as error:
        return str(error)
    finally:
        ours.close()
        theirs.close()
    return "done"


def test_what_is_not_gloos_or_not_planned_ends_a_rank_in_words() -> None:
    assert hostile(encode_preamble(Opcode.DATA, 0, 100) + bytes(100)) == "done"
    assert hostile(b"") == "rank 0 closed its connection"
    assert hostile(bytes(range(48))) == "rank 0 sent bytes that are not a gloo preamble"
    assert hostile(encode_preamble(Opcode.DATA, 0, 101)) == (
        "rank 0 sent 101 bytes in slot 0x0, which the plan does not have"
    )
    assert "which the plan does not have" in hostile(encode_preamble(Opcode.DATA, 7, 100))
    notices = encode_preamble(Opcode.SEND_READY, 5, 9) + encode_preamble(Opcode.RECV_READY, 0, 1 << 40)
    assert hostile(notices * 50) == "rank 0 closed its connection"


def test_a_worker_that_asks_more_often_than_it_pushes_asks_for_nothing_more() -> None:
    """Each of two workers has a push that wants the server's lock; one of them asks fifty times, and ends."""
    job, _ = first_come_job([[0], [0]], 0)
    plan = schedule_plan("star:hosts=3", expand(job))
    ours, theirs = zip(*(socket.socketpair() for _ in range(2)), strict=True)
    for sock in ours:
        sock.settimeout(0)
    loop = CompiledLoop(own_of(plan, 0, [RankConnection(ours[0], 1), RankConnection(ours[1], 2)]))
    pushes = loop.lanes[loop.lanes["is_of_sends"] == 0]
    theirs[0].sendall(encode_preamble(Opcode.SEND_READY, int(pushes["slot"][0]), 0) * 50)
    theirs[0].shutdown(socket.SHUT_WR)
    with pytest.raises(PeerLost, match="rank 1 closed its connection"):
        loop.run(time.monotonic_ns())
    assert len(pushes) == 2
    assert loop.rank.n_asked == 0  # it has the lock, which nobody else waits for
    assert (loop.lanes["next_asked"] <= loop.lanes["end"]).all()
    for sock in (*ours, *theirs):
        sock.close()


@pytest.mark.parametrize("seed", range(30))
def test_any_bytes_at_all_only_end_a_rank(seed: int) -> None:
    draw = random.Random(seed)
    parts = [
        encode_preamble(draw.choice(list(Opcode)), draw.choice((0, 1, 4 << 56)), draw.choice((0, 99, 100)))
        if draw.random() < 0.7
        else draw.randbytes(draw.randrange(60))
        for _ in range(draw.randrange(1, 8))
    ]
    assert hostile(b"".join(parts)) == "done" or "rank 0" in hostile(b"".join(parts))


def test_a_send_beyond_its_buffer_is_never_given_to_c() -> None:
    schedule = Schedule.of(2, (Op("message", 100),), (Send(0, 0, 1, 0, 100, False),))
    plan = schedule_plan("star:hosts=2", schedule)
    beyond = schedule.sends.of([replace(schedule.sends[0], offset=1)])
    spoiled = replace(plan, schedule=replace(schedule, sends=beyond))
    for rank in (0, 1):
        with pytest.raises(IndexError):
            CompiledLoop(own_of(spoiled, rank, []))


def test_peers_are_handed_what_becomes_possible_at_once_in_the_order_of_operations() -> None:
    """All go onto the host's one link: what is first must not wait behind the rest."""
    n = 6
    ops = tuple(Op("message", 100, tag=i) for i in range(n - 1))
    frees = Send(0, n - 1, 0, 0, 100, False)
    sends = (frees, *(Send(i, 0, i, 0, 100, False) for i in range(1, n - 1)))
    gates = (Gate(0, n - 1, (), 50_000_000), *(Gate(i, 0, (0,)) for i in range(1, n - 1)))
    schedule = Schedule.of(n, ops, sends, gates)
    all_ranks, _ = carried_out(unchecked_plan(f"star:hosts={n}", schedule), CompiledLoop)
    handed_ns = all_ranks[0].times.handed_ns
    assert sorted(handed_ns, key=lambda number: handed_ns[number]) == [1, 2, 3, 4]


def test_of_an_operation_a_notice_to_receive_goes_before_the_ranks_own_data() -> None:
    """Receive 2 and send 1 become possible together, and go over one connection."""
    sends = (
        Send(0, 1, 0, 0, 100, False),
        Send(0, 0, 1, 0, 100, False, needs=(0,)),
        Send(0, 1, 0, 100, 100, False, needs=(0,), ready=(0,)),
    )
    plan = unchecked_plan("star:hosts=2", Schedule.of(2, (Op("allreduce", 200),), sends))
    _, said_in_c = carried_out(plan, CompiledLoop)
    _, said = carried_out(plan, lambda each: Loop(each, Aggregating(plan, each.rank, ())))
    opcodes = [opcode for opcode, _, _ in said_in_c[0, 1]]
    assert opcodes.count(Opcode.RECV_READY) == 2
    assert opcodes.index(Opcode.SEND_READY) > max(
        place for place, opcode in enumerate(opcodes) if opcode == Opcode.RECV_READY
    )
    assert said_in_c[0, 1] == said[0, 1]


@pytest.mark.parametrize("is_as_captured", [True, False])
def test_c_announces_ahead_of_what_comes_and_joins_messages_unless_they_are_as_captured(
    is_as_captured: bool,
) -> None:
    """Each packet of the socket is what one call has sent; the test is rank 0, which sends one of 96."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    sends = tuple(Send(0, 0, 1, 4 * i, 4, reduce=False) for i in range(3 * ANNOUNCED_AHEAD))
    schedule = Schedule.of(2, (Op("message", 4 * len(sends), tag=2),), sends)
    ours.settimeout(5)
    theirs.setblocking(False)
    own = own_of(unchecked_plan("star:hosts=2", schedule), 1, [RankConnection(theirs, 0)])
    loop = CompiledLoop(replace(own, is_as_captured=is_as_captured))
    thread = threading.Thread(target=suppressed_run, args=(loop,))
    thread.start()
    first, half = ANNOUNCED_AHEAD // 2 + 1, ANNOUNCED_AHEAD // 2
    counts = []
    for expected in (first, half):
        packets: list[bytes] = []
        while sum(map(len, packets)) < expected * PREAMBLE_NBYTES:
            packets.append(ours.recv(1 << 16))
        counts.append([len(packet) // PREAMBLE_NBYTES for packet in packets])
        ours.send(struct.pack("<6Q", PREAMBLE_NBYTES + 4, Opcode.DATA, 2, 0, 4, 0))
    ours.close()
    thread.join(5)
    theirs.close()
    apart, joined = [[1] * first, [1] * half], [[first], [half]]
    assert counts == (apart if is_as_captured else joined)


def test_c_announces_all_at_once_where_data_go_both_ways() -> None:
    """The test is rank 0: it sends 96 messages and gets as many."""
    n = 3 * ANNOUNCED_AHEAD
    ours, theirs = socket.socketpair()
    sends = tuple(Send(0, i % 2, 1 - i % 2, 4 * i, 4, reduce=False) for i in range(2 * n))
    schedule = Schedule.of(2, (Op("message", 8 * n, tag=2),), sends)
    ours.settimeout(5)
    theirs.setblocking(False)
    loop = CompiledLoop(own_of(unchecked_plan("star:hosts=2", schedule), 1, [RankConnection(theirs, 0)]))
    thread = threading.Thread(target=suppressed_run, args=(loop,))
    thread.start()
    said = b""
    while len(said) < 2 * n * PREAMBLE_NBYTES:  # that it is ready to receive, and to send
        said += ours.recv(1 << 16)
    opcodes = Counter(struct.unpack_from("<6Q", said, at)[1] for at in range(0, len(said), PREAMBLE_NBYTES))
    ours.close()
    thread.join(5)
    theirs.close()
    assert opcodes == {Opcode.RECV_READY: n, Opcode.SEND_READY: n}


def suppressed_run(loop: CompiledLoop) -> None:
    with suppress(PeerLost):
        loop.run(time.monotonic_ns())


@pytest.mark.parametrize("piece_nbytes", [1, 3, 7, 250])
def test_numbers_that_come_in_pieces_that_end_within_one_are_added_right(piece_nbytes: int) -> None:
    nbytes = 1000
    schedule = Schedule.of(2, (Op("allreduce", nbytes),), (Send(0, 0, 1, 0, nbytes, True),))
    ours, theirs = socket.socketpair()
    ours.settimeout(0)
    own = own_of(unchecked_plan("star:hosts=2", schedule), 1, [RankConnection(ours, 0)])
    before = own.buffers[0].view(np.float32).copy()
    numbers = np.arange(nbytes // 4, dtype=np.float32)
    loop = CompiledLoop(own)
    rank = threading.Thread(target=loop.run, args=(time.monotonic_ns(),))
    rank.start()
    slot = int(loop.lanes["slot"][0])
    data = encode_preamble(Opcode.DATA, slot, nbytes) + numbers.tobytes()
    for at in range(0, len(data), piece_nbytes):
        theirs.sendall(data[at : at + piece_nbytes])
        if piece_nbytes > 1:
            time.sleep(1e-4)
    rank.join(10)
    ours.close()
    theirs.close()
    assert np.array_equal(own.buffers[0].view(np.float32), before + numbers)


@pytest.mark.parametrize("name", ["TRANSFER", "OPERATION", "LANE", "ACCESS", "DUE"])
def test_a_library_of_other_layouts_is_refused(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    library.cache_clear()
    monkeypatch.setattr(clayout, name, np.dtype([("bytes", np.uint64, 99)]))
    with pytest.raises(OSError, match=r"librank\.so is of another version; run sudo"):
        library()


@contextmanager
def pair_loops(line: FinishLine) -> Iterator[list[CompiledLoop]]:
    """Those of the two ranks of one send."""
    schedule = Schedule.of(2, (Op("message", 100),), (Send(0, 0, 1, 0, 100, False),))
    plan = schedule_plan("star:hosts=2", schedule)
    ends = socket.socketpair()
    for sock in ends:
        sock.settimeout(0)
    owns = [own_of(plan, rank, [RankConnection(ends[rank], 1 - rank)]) for rank in range(2)]
    with ends[0], ends[1]:
        yield [CompiledLoop(own, line.place(number)) for number, own in enumerate(owns)]


def test_ranks_that_are_done_wait_for_those_of_the_same_machine_that_are_not() -> None:
    """Of four the last two begin 200 ms later; twice, as a line is there for all repeats."""
    line = FinishLine(4)
    for _ in range(2):
        with pair_loops(line) as early, pair_loops(line) as late:
            start_ns = time.monotonic_ns()
            late_ns = start_ns + 200_000_000
            starts_ns = [start_ns, start_ns, late_ns, late_ns]
            with ThreadPoolExecutor(4) as threads:
                back_ns = list(threads.map(back_after, [*early, *late], starts_ns))
        assert max(loop.rank.done_ns for loop in early) < start_ns + 150_000_000
        assert min(back_ns) >= max(loop.rank.done_ns for loop in late) >= late_ns


def back_after(loop: CompiledLoop, start_ns: int) -> int:
    """When its run is over."""
    loop.run(start_ns)
    return time.monotonic_ns()


def test_python_handles_signals_before_the_start_and_at_the_finish() -> None:
    """At the line one rank waits for a third, which never comes, until a handler raises."""
    handled_ns = list[int]()

    def handle(*_: object) -> None:
        handled_ns.append(time.monotonic_ns())
        if len(handled_ns) == 2:
            raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, handle)
    try:
        with pair_loops(FinishLine(3)) as (one, other):
            start_ns = time.monotonic_ns() + 300_000_000
            threading.Thread(target=other.run, args=(start_ns,), daemon=True).start()
            signal.setitimer(signal.ITIMER_REAL, 0.1, 0.5)
            with pytest.raises(KeyboardInterrupt):
                one.run(start_ns)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert handled_ns[0] < start_ns <= one.rank.began_ns < one.rank.done_ns < handled_ns[1]
