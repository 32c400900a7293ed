"""MLSL's example on real packets: the small allreduce, needed first, does not queue behind the large one."""

from dataclasses import replace
from pathlib import Path

import pytest

from gradwire.emu import records, run
from gradwire.emu.events import load_events
from gradwire.emu.options import RunOptions
from gradwire.traces.schedules.expand import expand
from gradwire.traces.schedules.outbox import FIFO, NEWEST_FIRST, Order
from tests.made_layers import LARGE, SMALL, UNIT_MS, two_layers
from tests.made_plans import PAYLOAD_EFFICIENCY, schedule_plan

pytestmark = [pytest.mark.real, pytest.mark.untimed]

UNIT_NBYTES = int(UNIT_MS / 1e3 * 20e6 * PAYLOAD_EFFICIENCY / 8 / 1.5) // 16 * 16


@pytest.mark.parametrize("order", [FIFO, NEWEST_FIRST])
def test_the_newest_allreduce_ends_before_the_last_step_of_an_older_one(order: Order, tmp_path: Path) -> None:
    """In units the small one ends at 12 and the large one at 12 (fifo), or at 5 to 8 and at 12."""
    schedule = replace(expand(two_layers(UNIT_NBYTES), "halving-doubling", pace="early"), order=order)
    plan = schedule_plan("star:hosts=4,rate=20M", schedule)
    folder = tmp_path / "run"
    run.run(plan, folder, RunOptions(repeats=1), lambda phase, more: None, lambda work: None)
    assert {repeat.wrong for repeat in records.load_repeats(folder)} == {0}
    events = load_events(folder, plan, 0)
    arrived, queued = events.of("arrived"), events.of("queued")
    small_ns = arrived.t_ns[arrived.op == SMALL].max()
    last_step_ns = queued.t_ns[queued.op == LARGE].max()
    assert (small_ns < last_step_ns) == (order == NEWEST_FIRST)
