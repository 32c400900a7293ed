"""Newest first: sends of one operation of a rank under way at a time, of the one that began last."""

from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from gradwire.planning.model import simulation
from gradwire.planning.model.hosts import HostCosts
from gradwire.planning.model.simulation import Simulated, simulate
from gradwire.planning.plan import Plan, load, save
from gradwire.traces.making.collectives import made_allreduce
from gradwire.traces.schedules.expand import expand
from gradwire.traces.schedules.outbox import FIFO, NEWEST_FIRST, Order, Outbox, parse_order
from gradwire.traces.workload import SCHEMA, Collective, Compute, Item, Message, Start, Workload
from tests.made_layers import LARGE, N_RANKS, SMALL, UNIT_MS, two_layers
from tests.made_plans import PAYLOAD_EFFICIENCY, schedule_plan

RATE_BPS = 100e6
UNIT_NBYTES = int(UNIT_MS / 1e3 * RATE_BPS * PAYLOAD_EFFICIENCY / 8 / 1.5) // 16 * 16
HOSTS = HostCosts(0.0001, 0.0, 0.0001, n_cpus=64, segment_nbytes=15_000, buffer_nbytes=1 << 17)


def layers(order: Order, hosts: HostCosts | None = None, pace: str = "early") -> tuple[Plan, Simulated]:
    schedule = expand(two_layers(UNIT_NBYTES), "halving-doubling", pace=pace)
    plan = schedule_plan(f"star:hosts={N_RANKS},rate=100M", replace(schedule, order=order))
    return plan, simulate(plan.fabric, plan.flows, plan.schedule, hosts=hosts)


def ends(plan: Plan, simulated: Simulated, op: int) -> list[float]:
    """In units, of the steps of an allreduce."""
    found: dict[int, float] = {}
    for send, end_s in zip(plan.schedule.sends, simulated.ends_s, strict=False):
        if send.op == op:
            found[send.step] = max(found.get(send.step, 0.0), end_s * 1e3 / UNIT_MS)
    return [found[step] for step in sorted(found)]


def test_the_iteration_of_mlsls_example_takes_14_units_and_13() -> None:
    """By hand: with phases of 10/3, 5/3, 5/3, 10/3 the running one ends at 4.33, the small one at 5.33."""
    for order, units in ((FIFO, 14), (NEWEST_FIRST, 13)):
        _, simulated = layers(order)
        assert simulated.time_s * 1e3 / UNIT_MS == pytest.approx(units, rel=1e-3)
    plan, simulated = layers(NEWEST_FIRST)
    assert ends(plan, simulated, LARGE)[0] == pytest.approx(1 + 10 / 3, rel=1e-3)
    assert ends(plan, simulated, SMALL)[-1] == pytest.approx(2 + 10 / 3, rel=1e-3)
    assert ends(plan, simulated, LARGE)[-1] == pytest.approx(12, rel=1e-3)


def test_a_schedule_of_any_size_has_its_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """Large ones are worked out by other code, which knows fifo only."""
    monkeypatch.setattr(simulation, "COLUMNS_ABOVE", 0)
    for order, units in ((FIFO, 14), (NEWEST_FIRST, 13)):
        _, simulated = layers(order)
        assert simulated.time_s * 1e3 / UNIT_MS == pytest.approx(units, rel=1e-3)


@pytest.mark.parametrize("pace", ["early", "step"])
def test_the_model_of_segments_serves_in_the_same_order(pace: str) -> None:
    """A socket's buffer may let a step of the large one in; 14 and 13 remain within 2 %."""
    for order, units in ((FIFO, 14), (NEWEST_FIRST, 13)):
        plan, simulated = layers(order, HOSTS, pace)
        assert simulated.time_s * 1e3 / UNIT_MS == pytest.approx(units, rel=0.02)
        is_first = ends(plan, simulated, SMALL)[-1] < ends(plan, simulated, LARGE)[-2]
        assert is_first == (order == NEWEST_FIRST)


@pytest.mark.parametrize("delay_ns", [0, 2_000_000])
@pytest.mark.parametrize(
    "algorithm",
    ["ring", "halving-doubling", "all-pairs", "double-binary-tree", "ps:colocated", "ps:servers=2"],
)
def test_a_job_of_one_operation_takes_as_long_newest_first_as_fifo(algorithm: str, delay_ns: int) -> None:
    """There is nothing newer that a send could wait for, and no two ranks push to a server in turn."""
    schedule = replace(expand(made_allreduce(6, 1 << 18), algorithm), send_delay_ns=delay_ns)
    fifo, newest = (
        schedule_plan("star:hosts=8,rate=100M", replace(schedule, order=order)).prediction.fluid_s
        for order in (FIFO, NEWEST_FIRST)
    )
    assert newest == pytest.approx(fifo)


def test_sends_of_one_operation_to_several_ranks_are_under_way_together_one_to_each() -> None:
    box = Outbox([1, 1, 1, 2])
    box.offer((5, -1), 1, 10)
    box.offer((5, -1), 1, 11)
    box.offer((6, -1), 1, 12)
    assert [box.next(0.0), box.next(0.0), box.next(0.0)] == [10, 12, None]
    box.offer((7, -2), 2, 20)
    box.over(10)
    assert box.next(0.0) is None  # the newer one waits for what is under way, and goes before what is not
    box.over(12)
    assert [box.next(0.0), box.next(0.0)] == [20, None]
    box.over(20)
    assert box.next(0.0) == 11


def test_a_send_that_is_under_way_is_not_interrupted() -> None:
    box = Outbox([1, 1, 2])
    box.offer((5, 0), 1, 10)
    assert box.next(0.0) == 10
    box.offer((6, 0), 2, 20)
    assert box.next(0.0) is None
    box.over(10)
    assert box.next(0.0) == 20


def test_the_newest_operation_goes_first_and_of_it_the_first_send() -> None:
    box = Outbox([1, 2, 2])
    box.offer((5, 0), 1, 10)
    box.offer((6, 0), 2, 21)
    box.offer((5, 1), 2, 20)
    order = []
    while (send := box.next(0.0)) is not None:
        order.append(send)
        box.over(send)
    assert order == [20, 21, 10]


def test_sends_of_one_slot_keep_their_order() -> None:
    """Messages of one tag: the receiver tells them by their order alone."""
    box = Outbox([1, 3, 2])
    box.offer((5, 7), 1, 10)
    box.offer((5, 7), 3, 30)
    box.offer((6, 7), 2, 20)
    order = []
    while (send := box.next(0.0)) is not None:
        order.append(send)
        box.over(send)
    assert order == [20, 10, 30]


def test_nothing_older_begins_while_something_newer_comes_that_the_rank_goes_on_with() -> None:
    box = Outbox([1, 2, 2])
    box.offer((6, 0), 2, 20)
    assert box.next(0.0) == 20
    box.over(20)
    box.coming(2, 0.0)
    box.offer((5, 0), 1, 10)
    assert box.next(0.0) is None
    box.came(2, 0.0)
    box.offer((6, 0), 2, 21)
    assert box.next(0.0) == 21
    box.over(21)
    box.coming(2, 0.0)  # the last of it: the rank has no more to send
    assert box.next(0.0) == 10


def test_what_only_one_end_is_ready_for_is_not_coming() -> None:
    box = Outbox([1, 1, 2])
    box.end_ready(7, 2, 0.0)
    box.offer((5, 0), 1, 10)
    assert box.next(0.0) == 10
    box.over(10)
    box.end_ready(7, 2, 0.0)
    box.offer((5, 0), 1, 11)
    assert box.next(0.0) is None


def test_something_newer_is_not_held_back_by_something_older_that_comes() -> None:
    box = Outbox([1, 1, 2])
    box.coming(1, 0.0)
    box.offer((5, 0), 2, 20)
    assert box.next(0.0) == 20


def test_something_older_begins_when_nothing_newer_has_happened_for_a_while() -> None:
    box = Outbox([1, 2, 2], patience_s=0.005)
    box.offer((5, 0), 1, 10)
    box.offer((6, 0), 2, 20)
    assert box.next(1.0) == 20
    box.over(20)
    assert box.next(1.001) is None
    assert box.ask_again_s == pytest.approx(1.005)
    box.coming(2, 1.002)
    box.came(2, 1.004)
    assert box.next(1.0055) is None
    assert box.next(1.0095) == 10


def _random_job(random: Random, n_ranks: int) -> Workload:
    """Allreduces, messages and computing, each of which waits for some before it at some ranks."""
    items: list[Item] = []

    def start(rank: int) -> Start:
        mine = [n for n, item in enumerate(items) if not isinstance(item, Compute) or item.rank == rank]
        return Start(rank=rank, after=tuple(sorted(random.sample(mine, min(len(mine), random.randrange(3))))))

    for number in range(10):
        kind = random.choice(("allreduce", "message", "compute"))
        src, dst = random.sample(range(n_ranks), 2)
        if kind == "compute":
            items.append(Compute(start=start(src), duration_ns=random.randrange(1, 20_000_000)))
        elif kind == "message":
            items.append(
                Message(
                    tag=random.randrange(2),
                    src=src,
                    dst=dst,
                    nbytes=random.randrange(40_000),
                    start=start(src),
                )
            )
        else:
            starts = tuple(start(rank) for rank in range(n_ranks))
            nbytes = 4 * random.randrange(1, 30_000)
            items.append(Collective(kind="allreduce", tag=number, nbytes=nbytes, starts=starts))
    items.append(Message(src=0, dst=1, nbytes=4, start=Start(rank=0)))
    return Workload(schema=SCHEMA, framing="none", n_ranks=n_ranks, items=tuple(items))


@pytest.mark.broad(6)
@pytest.mark.parametrize("algorithm", ["ring", "halving-doubling", "tree:binomial"])
@pytest.mark.parametrize("hosts", [None, HOSTS])
def test_no_ranks_wait_for_each_other_for_ever(algorithm: str, hosts: HostCosts | None) -> None:
    """`simulate` raises for what never ends.  A message may wait for one of its tag that waits itself."""
    for seed in range(12):
        random = Random(seed)
        schedule = expand(_random_job(random, random.randrange(2, 7)), algorithm)
        plan = schedule_plan("star:hosts=6,rate=100M", replace(schedule, order=NEWEST_FIRST))
        assert simulate(plan.fabric, plan.flows, plan.schedule, hosts=hosts).time_s > 0


def test_an_order_that_there_is_not_is_refused_in_words() -> None:
    with pytest.raises(
        ValueError, match=r"there is no order 'lifo' \(did you mean fifo\?\); choose from fifo, newest-first"
    ):
        parse_order("lifo")


def test_a_plan_file_keeps_the_order(tmp_path: Path) -> None:
    plan, _ = layers(NEWEST_FIRST)
    save(plan, tmp_path / "plan.json")
    assert load(tmp_path / "plan.json").schedule.order == NEWEST_FIRST
