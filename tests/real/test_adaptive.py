"""Adaptive routes on packets: the controller sees flows that share a link, and moves as many as it takes."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from gradwire.emu import run
from gradwire.emu.options import RunOptions
from gradwire.emu.records import load_repeats
from gradwire.results.outages import settled
from tests.planning.test_adapt import plan_of

pytestmark = pytest.mark.real

ALONE_S = 3.0
RATE_BPS = 10_000_000


def test_flows_that_meet_where_no_other_path_is_free_are_parted(tmp_path: Path) -> None:
    """1→4 and 2→5 share a link, and one flow is in the way of each on its other path: two have to move.

    Together they would need twice as long; the controller looks every 0.25 s.
    """
    spines = {(0, 2): "spine0", (3, 0): "spine0", (1, 4): "spine1", (2, 5): "spine1"}
    nbytes = int(ALONE_S * RATE_BPS / 8 * 1448 / 1514)
    spec = f"leaf-spine:leaves=3,spines=2,hosts=2,rate={RATE_BPS}"
    plan = replace(plan_of(*spines, spec=spec, over=spines, nbytes=nbytes), routes="adaptive")
    folder = tmp_path / "run"
    run.run(plan, folder, RunOptions(repeats=1), lambda phase, more: None, lambda work: None)
    repeats = load_repeats(folder)
    assert [repeat.wrong for repeat in repeats] == [0] * len(repeats)
    assert min(repeat.time_s for repeat in repeats) < 1.5 * ALONE_S
    found = settled(folder, plan, repeats)
    assert found is not None
    assert found.min > 0
    assert found.max < ALONE_S
    lines = map(json.loads, (folder / "control.jsonl").read_text().splitlines())
    first = next(line for line in lines if line["event"] == "rebalanced")
    assert first["flows"] == 2
    assert len({(move["src"], move["dst"]) for move in first["moves"]} & set(spines)) == 2
