"""Parameter servers as allreduces: who sends what, and how long it takes."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise

import pytest

from gradwire.planning.experiment import Cell, Experiment, plan_of
from gradwire.planning.fabrics.spec import parse_fabric
from gradwire.planning.model.expected import ASSUMED, host_costs
from gradwire.planning.model.simulation import simulate
from gradwire.traces.making.collectives import made_allreduce
from gradwire.traces.schedules.algorithm import NotServedError
from gradwire.traces.schedules.algorithms.servers import Layout, largest_share
from gradwire.traces.schedules.collectives import algorithm
from gradwire.traces.schedules.correctness import check_correct
from gradwire.traces.schedules.expand import expand
from gradwire.traces.schedules.hints import NO_HINTS, Hints
from gradwire.traces.schedules.keys import keys_named
from gradwire.traces.schedules.schedule import Schedule
from gradwire.traces.schedules.sends import Send
from tests.made_plans import PAYLOAD_EFFICIENCY

MIB = 1 << 20
LAYOUTS = (
    "central",
    "servers=2",
    "servers=3,overlap=off",
    "servers=3,chunk=off",
    "colocated",
    "colocated,servers=1",
    "colocated,overlap=off",
)


def racks(n_ranks: int, n_racks: int) -> Hints:
    """Workers spread over racks in turn, each with a server after all workers."""
    return Hints(leaves=[(*range(rack, n_ranks, n_racks), n_ranks + rack) for rack in range(n_racks)])


def sent(schedule: Schedule) -> Counter[int]:
    return Counter({rank: sum(s.nbytes for s in schedule.sends if s.src == rank) for rank in range(40)})


@pytest.mark.broad(10)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("p", range(2, 18))
def test_servers_add_up_the_data_of_any_number_of_workers(layout: str, p: int) -> None:
    for nbytes in (0, 4, 52, 300_004):
        check_correct(expand(made_allreduce(p, nbytes), f"ps:{layout}"))


@pytest.mark.parametrize("layout", ["hierarchical", "hierarchical,overlap=off,chunk=1000"])
@pytest.mark.parametrize("p", range(2, 18))
def test_a_server_in_each_rack_adds_up_the_data_of_all(layout: str, p: int) -> None:
    for n_racks in {1, 2, min(3, p), p}:
        check_correct(expand(made_allreduce(p, 52_004), f"ps:{layout}", hints=racks(p, n_racks)))


@pytest.mark.parametrize("overlap", ["on", "off"])
@pytest.mark.parametrize("k", [1, 2, 3, 5])
def test_workers_push_the_buffer_once_and_each_server_has_an_equal_part_of_it(k: int, overlap: str) -> None:
    w, nbytes = 6, 30 * MIB // 8
    schedule = expand(made_allreduce(w, nbytes), f"ps:servers={k},overlap={overlap}")
    assert schedule.n_ranks == w + k
    assert schedule.ops[0].givers == tuple(range(w))
    assert schedule.ops[0].members == tuple(range(w + k))
    assert sent(schedule) == Counter(dict.fromkeys(range(w), nbytes)) + Counter(
        dict.fromkeys(range(w, w + k), w * nbytes // k)
    )


@pytest.mark.parametrize("k", [1, 2, 4, 6])
def test_workers_that_serve_keep_their_own_part(k: int) -> None:
    p, nbytes = 6, 12 * 4000
    due = {r: nbytes - nbytes // k * (r < k) + (p - 1) * nbytes // k * (r < k) for r in range(p)}
    assert sent(expand(made_allreduce(p, nbytes), f"ps:colocated,servers={k}")) == Counter(due)


def test_racks_pass_on_the_sum_of_their_workers_only() -> None:
    p, r, nbytes = 12, 3, 3 * 4096
    schedule = expand(made_allreduce(p, nbytes), "ps:hierarchical", hints=racks(p, r))
    between = [s for s in schedule.sends if s.src >= p and s.dst >= p]
    assert sum(s.nbytes for s in between) == r * 2 * (r - 1) * nbytes // r
    assert {
        rank: sum(s.nbytes for s in between if s.src == rank) for rank in range(p, p + r)
    } == dict.fromkeys(range(p, p + r), 2 * (r - 1) * nbytes // r)


def test_a_piece_is_pulled_when_it_is_pushed_and_without_overlap_when_all_are() -> None:
    on, off = (
        expand(made_allreduce(3, 9000), f"ps:central,chunk=1000,overlap={word}").sends
        for word in ("on", "off")
    )
    for pull in (send for send in on if not send.reduce):
        pushes = [on[number] for number in pull.needs]
        assert sorted(push.src for push in pushes) == [0, 1, 2]
        assert {(push.offset, push.nbytes) for push in pushes} == {(pull.offset, pull.nbytes)}
    for pull in (send for send in off if not send.reduce):
        pushed = {(push.src, push.offset + push.nbytes) for push in _needs(off, pull)}
        assert {(0, 9000), (1, 9000), (2, 9000)} <= pushed  # the last pieces of all workers


def test_a_push_waits_for_nothing_and_a_pull_is_announced_at_once() -> None:
    """What one rank sends to another leaves in the order of the ids, so no push may be behind a pull."""
    sends = expand(made_allreduce(4, 4096), "ps:colocated,chunk=128").sends
    for src, dst in sends.pairs():
        kinds = [send.reduce for send in sends if (send.src, send.dst) == (src, dst)]
        assert kinds == [True] * 8 + [False] * 8
    assert all(not send.needs for send in sends if send.reduce)
    assert all(not send.ready for send in sends)


@pytest.mark.parametrize(("p", "k"), [(6, 1), (6, 2), (6, 5), (6, 6), (16, 11)])
def test_servers_take_a_piece_of_other_workers_behind_that_of_servers(p: int, k: int) -> None:
    sends = expand(made_allreduce(p, k * 4096), f"ps:colocated,servers={k},chunk=1000").sends
    starts = {(s, send.offset): None for s in range(k) for send in sends if send.reduce and send.dst == s}
    before = {
        (server, offset): last
        for server in range(k)
        for last, offset in pairwise(sorted(offset for owner, offset in starts if owner == server))
    }
    assert len(before) == 4 * k  # each server has five pieces
    for send in sends:
        last = before.get((send.dst, send.offset))
        waits = send.reduce and send.src >= k and last is not None
        due = {(s, send.dst, last) for s in range(k) if s != send.dst} if waits else set()
        assert {(other.src, other.dst, other.offset) for other in (sends[n] for n in send.ready)} == due
        assert all(sends[number].reduce for number in send.ready)


def _needs(sends: Sequence[Send], send: Send) -> list[Send]:
    return [sends[number] for number in send.needs]


@pytest.mark.parametrize(
    ("layout", "p", "factor"),
    [
        ("central", 8, 8),
        ("central,overlap=off", 8, 16),
        ("servers=2", 8, 4),
        ("servers=8", 8, 1),
        ("servers=2,overlap=off", 8, 8),
        ("servers=2,chunk=off", 8, 8),
        ("servers=16", 8, 1),
        ("colocated,servers=1", 8, 7),
        ("colocated", 8, 2 * 7 / 8),
        ("colocated,overlap=off", 8, 2 * 7 / 8),
        ("colocated,servers=2", 8, 1 / 2 + 7 / 2),
        ("colocated,servers=2,chunk=off", 8, 7),
    ],
)
def test_the_closed_forms_of_many_pieces_and_of_one_are_those_of_the_papers(
    layout: str, p: int, factor: float
) -> None:
    """In alpha and S beta: facts of PHub, BytePS and Zou et al."""
    pieces = "" if "chunk" in layout else ",chunk=1000"
    time_s = algorithm(f"ps:{layout}{pieces}").time_s(p, 16_000_000, 0.5, 1.0, NO_HINTS)
    assert time_s == pytest.approx(1 + factor * 16_000_000, rel=2e-3)


def test_a_server_with_a_faster_cable_takes_less_time() -> None:
    """PBox: max(1, w / n) S beta, and the only piece is pushed before it is pulled."""
    for n, factor in ((2, 4), (8, 1), (16, 1)):
        hints = Hints(rates_bps=[100] * 8 + [100 * n])
        assert algorithm("ps:central").time_s(8, 1000, 0.0, 1.0, hints) == pytest.approx(2 * factor * 1000)


@pytest.mark.parametrize(
    ("layout", "keys", "factor"),
    [
        ("servers=2,keys", (1000, 3000), 2 * 6 * 3 / 4),  # a tensor is one piece: pushed by 6, then pulled
        ("servers=2,keys,chunk=off", (100,) * 8 + (800,), 2 * 6 / 2),  # one of 8 pieces is sooner there
        ("servers=2,keys,chunk=off", (100,) * 8, (1 + 1 / 4) * 6 / 2),
        ("servers=2,keys,overlap=off", (100,) * 8, 2 * 6 / 2),
        ("servers=2,chunk=800", (100,) * 8, (1 + 1 / 2) * 6 / 2),
        ("colocated,servers=1,chunk=800", (100,) * 8, (1 + 1 / 4) * 5),
        ("colocated,chunk=800", (300,) * 8, 2 * 5 / 6),
    ],
)
def test_the_largest_piece_is_pushed_before_it_is_pulled(
    layout: str, keys: tuple[int, ...], factor: float
) -> None:
    """Of 6 workers, worked out by hand; the model has it by itself."""
    nbytes = 4 * sum(keys)
    cell = Cell(parse_fabric("star:hosts=8,rate=1G"), f"ps:{layout}", "linear", "ecmp")
    plan = plan_of(cell, Experiment(made_allreduce(6, nbytes), "test", keys=keys))
    assert plan.prediction.fluid_s == pytest.approx(
        factor * nbytes * 8 / (1e9 * PAYLOAD_EFFICIENCY), rel=1e-3
    )
    closed_s = algorithm(f"ps:{layout}").time_s(6, nbytes, 0.0, 1.0, Hints(keys=keys))
    assert closed_s == pytest.approx(factor * nbytes)


@pytest.mark.parametrize(
    ("layout", "p", "nbytes", "hints", "reason"),
    [
        ("central", 1, 400, NO_HINTS, "at least 2 ranks, got 1"),
        ("colocated,servers=5", 4, 400, NO_HINTS, "5 of 4 workers cannot serve: choose servers=4 or fewer"),
        (
            "servers=2,chunk=4",
            8,
            4_000_000,
            NO_HINTS,
            "the pieces would make 16,000,000 sends: choose a larger chunk=",
        ),
        ("servers=2,chunk=4", 8, 1 << 32, NO_HINTS, "1,073,741,824 pieces: choose a larger chunk="),
        ("hierarchical", 4, 400, NO_HINTS, "made for one fabric"),
        ("hierarchical", 2, 400, Hints(leaves=[(0, 1, 2), (3,)]), "one has 1 server and 0 workers"),
        ("servers=2,keys", 4, 400, NO_HINTS, "name them with --keys"),
        ("servers=2,keys", 4, 400, Hints(keys=[60, 41]), "404 bytes together, and the buffer 400"),
        ("servers=3,keys", 4, 400, Hints(keys=[60, 40]), "3 servers are more than the 2 keys"),
        ("servers=512", 16_000, 400, NO_HINTS, "16,000 ranks and 512 servers are too many"),
    ],
)
def test_what_servers_cannot_serve_is_refused(
    layout: str, p: int, nbytes: int, hints: Hints, reason: str
) -> None:
    with pytest.raises(NotServedError, match=reason):
        expand(made_allreduce(p, nbytes), f"ps:{layout}", hints=hints)


RESNET50 = tuple(key.n_elements for key in keys_named("resnet50"))
RESNET50_NBYTES = 4 * sum(RESNET50)


def planned_s(layout: str, w: int = 16) -> float:
    """Of an allreduce of ResNet-50's gradients in the model, in units of S beta, on a fabric in which only
    servers and workers can be a bottleneck.
    """
    fabric = parse_fabric("star:hosts=32,rate=1G")
    cell = Cell(fabric, f"ps:{layout}", "linear", "ecmp")
    plan = plan_of(cell, Experiment(made_allreduce(w, RESNET50_NBYTES), "test", keys=RESNET50))
    return plan.prediction.fluid_s / (RESNET50_NBYTES * 8 / (1e9 * PAYLOAD_EFFICIENCY))


@pytest.mark.parametrize(
    ("layout", "factor"),
    [
        ("servers=4,keys", 16 / 4),
        ("servers=11,keys", 16 * 2_359_296 / 25_557_032),  # the largest tensor has 9.2 %
        ("servers=16,keys", 16 * 2_359_296 / 25_557_032),
        ("servers=16", 1),
    ],
)
def test_whole_tensors_keep_more_than_11_servers_from_helping(layout: str, factor: float) -> None:
    """Pieces of 1 % of the buffer, to be quick: the last is pulled by 16 workers after all is pushed."""
    assert factor <= planned_s(f"{layout},chunk=512KiB") < factor * 1.06 + 0.06


@pytest.mark.long
@pytest.mark.parametrize("layout", ["colocated,servers=8,keys", "colocated,servers=8", "colocated,servers=4"])
def test_where_some_workers_serve_the_model_with_hosts_keeps_to_the_closed_form(layout: str) -> None:
    """The others would get ahead, and late notices wait behind pushes: 1.29, 1.14 and 1.24."""
    scale, rate_bps, p = Fraction(1, 16), 20_000_000, 16
    cell = Cell(parse_fabric(f"star:hosts={p},rate={rate_bps}"), f"ps:{layout}", "linear", "ecmp")
    workload = made_allreduce(p, RESNET50_NBYTES)
    plan = plan_of(cell, Experiment(workload, "test", scale=scale, keys=RESNET50))
    hosts = replace(host_costs(ASSUMED, plan.transport), seed=1)
    time_s = simulate(plan.fabric, plan.flows, plan.schedule, hosts=hosts).time_s
    unit_s = RESNET50_NBYTES / 16 * 8 / (rate_bps * PAYLOAD_EFFICIENCY)
    n_servers = 4 if "=4" in layout else 8
    assert 1 < time_s / unit_s / (1 + (p - 2) / n_servers) < 1.12


def test_keys_of_a_small_buffer_may_have_nothing_left() -> None:
    """At a 10,000th of the size most of ResNet-50's tensors are less than an element."""
    scale = Fraction(1, 10_000)
    schedule = expand(
        made_allreduce(3, RESNET50_NBYTES), "ps:servers=2,keys", scale=scale, hints=Hints(keys=RESNET50)
    )
    check_correct(schedule)
    assert sum(send.nbytes for send in schedule.sends if send.reduce) == 3 * schedule.ops[0].nbytes


def test_largest_first_shares_tensors_out_better_than_in_turn() -> None:
    """The total over K is the least that the fullest server can have, and the largest tensor."""
    hints = Hints(keys=RESNET50)
    first, in_turn = (
        [largest_share(Layout("servers", k, True, assign), k, RESNET50_NBYTES, hints) for k in range(1, 17)]
        for assign in ("largest-first", "round-robin")
    )
    least = [max(1 / k, 2_359_296 / 25_557_032) for k in range(1, 17)]
    assert all(a == pytest.approx(b, rel=0.02) for a, b in zip(first, least, strict=True))
    assert any(b > a for a, b in pairwise(in_turn))  # more servers, and yet more at one
    assert max(b / a for a, b in zip(first, in_turn, strict=True)) > 1.5
