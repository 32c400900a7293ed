"""What the demo replays: the job of its capture on the fabric that bounded it, and on two others."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from gradwire.emu.project import PROJECT
from gradwire.planning.capturefabric import capture_fabric
from gradwire.planning.plan import Plan
from gradwire.results.row import Row
from gradwire.tools.cli import main
from gradwire.tools.work import demo


@pytest.mark.long
def test_every_cell_can_be_planned_and_the_first_is_the_capture_itself(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    plans: list[Plan] = []
    shown: list[Any] = []

    def carried_out(todo: Sequence[Plan | Row], *others: Any, **_: object) -> list[Row]:
        shown.append(others)
        plans.extend(one for one in todo if isinstance(one, Plan))
        assert len(plans) == len(todo)
        return []

    monkeypatch.setattr(demo, "need_root_and_tools", lambda command: None)
    monkeypatch.setattr(demo, "carry_out", carried_out)
    monkeypatch.setattr(demo, "show", lambda *_, **__: None)
    with pytest.raises(SystemExit) as left:
        main(["demo", "--out", str(tmp_path)])
    assert left.value.code == 0
    assert plans[0].fabric == capture_fabric([PROJECT / demo.SAMPLE])
    # Three iterations of 240.8 ms by the ranks' logs, of which the model leaves out what hosts take.
    assert 0.75 < plans[0].prediction.fluid_s / (3 * 0.2408) < 1
    others = [plan.prediction.fluid_s for plan in plans if plan.fabric.family != "leaf-spine"]
    assert min(others) < 0.6 * plans[0].prediction.fluid_s
    printed = capsys.readouterr().out
    assert "What to do next" in printed
    assert "iterations 9 to 11" in " ".join(shown[0][2].introduction)
