"""Parameter servers as real packets: the bytes of every host, and the messages on the wire."""

from collections import Counter
from pathlib import Path

import pytest

from gradwire.emu import records, run
from gradwire.emu.options import RunOptions
from gradwire.planning.experiment import Cell, Experiment, plan_of
from gradwire.planning.fabrics.spec import parse_fabric
from gradwire.traces.making.collectives import made_allreduce
from gradwire.traces.reader import open_trace

pytestmark = [pytest.mark.real, pytest.mark.untimed]

W, NBYTES = 6, 6 * 4 * 8400


@pytest.mark.parametrize(
    ("spec", "layout", "sent"),
    [
        ("star:hosts=8,rate=100M", "servers=2", [NBYTES] * W + [W * NBYTES // 2] * 2),
        ("star:hosts=6,rate=100M", "colocated", [2 * (W - 1) * NBYTES // W] * W),
        # each server answers three workers and exchanges its sums with the other: 2(r-1)/r S
        ("leaf-spine:leaves=2,spines=1,hosts=4,rate=100M", "hierarchical", [NBYTES] * W + [4 * NBYTES] * 2),
    ],
)
def test_each_host_sends_the_bytes_of_the_closed_form_and_the_messages_are_the_plans(
    spec: str, layout: str, sent: list[int], tmp_path: Path
) -> None:
    cell = Cell(parse_fabric(spec), f"ps:{layout},chunk=16KiB", "linear", "ecmp")
    plan = plan_of(cell, Experiment(made_allreduce(W, NBYTES), "test"))
    folder = tmp_path / "run"
    options = RunOptions(repeats=1, captures=True)
    run.run(plan, folder, options, lambda phase, more: None, lambda work: None)
    repeats = records.load_repeats(folder)
    for repeat in repeats:
        assert repeat.wrong == 0
        assert list(repeat.sent_nbytes) == sent
    data = (trace := open_trace([folder / "captures"], None)).messages.where(trace.messages.is_data)
    rank = [[plan.fabric.ip(host) for host in plan.placement].index(address) for address in data.addresses]
    read = Counter(
        (rank[src], rank[dst], int(nbytes))
        for src, dst, nbytes in zip(data.src, data.dst, data.nbytes, strict=True)
    )
    sends = [(send.src, send.dst, send.nbytes) for send in plan.schedule.sends]
    assert read == Counter(sends * len(repeats))
