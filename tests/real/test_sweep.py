"""`gradwire sweep` sends the packets of a study's cells, keeps their rows, and does none of them twice."""

import json
from pathlib import Path

import pandas as pd
import pytest

from gradwire.tools.work.sweep import run_study

pytestmark = [pytest.mark.real, pytest.mark.untimed]

STUDY = """
jobs:
  sums: {bench: allreduce, begin: 1MiB, ranks: 2}
  too many: {bench: allreduce, begin: 64KiB, ranks: 3}
fabric: star:hosts=2,rate=20M
algorithm: ring
repeat: 1
seeds: 0..1
expect: wrong == 0
"""


def test_the_packets_of_each_cell_are_sent_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, out = tmp_path / "two.yaml", tmp_path / "out"
    path.write_text(STUDY)
    codes, printed = [], []
    for _ in range(2):
        codes.append(run_study(path, out, None, as_json=True))
        printed.append(json.loads(capsys.readouterr().out))
    first, again = printed
    assert again == first
    assert len(list((out / "runs").iterdir())) == 1
    sent = [cell for cell in first["cells"] if cell["job"] == "sums"]
    for cell in sent:
        row = cell["row"]
        assert (row["wrong"], row["seed"]) == (0, cell["seed"])
        assert row["time_s"]["median"] >= 0.98 * cell["bound_s"]  # a burst and a segment go ahead of time
        assert (Path(row["folder"]) / "plan.json").exists()
    assert [cell["refused"] is not None for cell in first["cells"]] == [False, True] * 2
    assert [each["verdict"] for each in first["expectations"]] == ["holds"]
    assert codes[0] == (0 if all(cell["row"]["verdict"] == "valid" for cell in sent) else 3)
    rows = pd.read_parquet(out / "rows.parquet")
    assert list(rows["job"]) == ["sums", "too many"] * 2
    assert list(rows["verdict"])[1] == "refused"
