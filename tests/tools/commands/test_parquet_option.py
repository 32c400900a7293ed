"""`--parquet` of the commands: the tables that are shown, as files with types."""

import json
from pathlib import Path

import pandas as pd
import pytest

import gradwire
from gradwire.tools import cli
from tests.made_plans import MIB, allreduce_plan
from tests.made_runs import made_matrix

ROOT = Path(__file__).parents[3]
CAPTURE = ROOT / "traces" / "samples" / "slow_ddp_8_mlp_leafspine50M"


def run(*words: object) -> int:
    with pytest.raises(SystemExit) as left:
        cli.main([str(word) for word in words])
    return int(left.value.code or 0)


def tables(folder: Path) -> dict[str, pd.DataFrame]:
    return {path.stem: pd.read_parquet(path) for path in folder.glob("*.parquet")}


def test_plans_are_in_tables_with_the_figures_of_their_json(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """HDRM's rank map makes no sense on a star: that cell has no figure, no link and no flow."""
    words = ["plan", CAPTURE, "--iteration", "1", "--fabric", "star:hosts=8", "--placement", "linear"]
    words += ["--placement", "hdrm", "--algorithm", "ring", "--parquet", tmp_path / "t", "--json"]
    assert run(*words) == 0
    whole, refused = json.loads(capsys.readouterr().out)["cells"]
    found = tables(tmp_path / "t")
    assert set(found) == {"rows", "links", "flows"}
    rows = found["rows"]
    assert list(rows["cell"]) == [1, 2]
    assert (rows["fluid_s"][0], rows["worst_link"][0]) == (whole["fluid_s"], whole["worst_link"])
    assert rows["refused"][1] == refused["refused"] and pd.isna(rows["fluid_s"][1])
    assert set(found["links"]["cell"]) == set(found["flows"]["cell"]) == {1}
    assert found["links"]["payload_nbytes"].sum() == sum(link["payload_nbytes"] for link in whole["links"])
    assert list(found["flows"]["sport"]) == [flow["sport"] for flow in whole["flows"]]
    assert sum(flow["payload_nbytes"] for flow in whole["flows"]) == whole["payload_nbytes"]


@pytest.mark.long
def test_one_plan_is_in_the_same_tables(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["plan", CAPTURE, "--iteration", "1", "--fabric", "star:hosts=8"]
    assert run(*words, "--parquet", tmp_path / "t") == 0
    assert f"tables: {tmp_path / 't'}" in capsys.readouterr().out.replace("\n", "")
    assert {name: len(table) for name, table in tables(tmp_path / "t").items()}["rows"] == 1


@pytest.mark.long
def test_an_inspection_is_in_the_tables_of_its_csv(tmp_path: Path) -> None:
    assert run("inspect", CAPTURE, "--parquet", tmp_path / "t", "--csv", tmp_path / "c") == 0
    found = tables(tmp_path / "t")
    assert set(found) == {path.stem for path in (tmp_path / "c").glob("*.csv")}
    for name, table in found.items():
        written = pd.read_csv(tmp_path / "c" / f"{name}.csv", keep_default_na=False, dtype=str)
        assert list(written.columns) == list(table.columns)
        shown = table.astype("string").fillna("")
        for column in table.columns:
            if not pd.api.types.is_float_dtype(table[column]):
                assert list(shown[column]) == list(written[column]), (name, column)
    assert found["messages"]["first_ns"].dtype == "int64"


def test_the_tables_of_a_report_are_those_of_python(tmp_path: Path) -> None:
    plans = [allreduce_plan("star:hosts=4", name, nbytes=MIB) for name in ("ring", "halving-doubling")]
    folder = made_matrix(tmp_path / "m", plans, (1.0, 2.0))
    assert run("report", folder, "--parquet", tmp_path / "t", "--csv", tmp_path / "c") == 0
    of_python = gradwire.read_results(folder).tables
    found = tables(tmp_path / "t")
    assert set(found) == set(of_python)
    for name, table in of_python.items():
        pd.testing.assert_frame_equal(found[name], table)
        written = pd.read_csv(tmp_path / "c" / f"{name}.csv")
        assert (list(written.columns), len(written)) == (list(table.columns), len(table))
    assert list(pd.read_csv(tmp_path / "c" / "rows.csv")["time_s_median"]) == [1.5, 1.5]


@pytest.mark.parametrize("words", [("plan", CAPTURE), ("inspect", CAPTURE), ("report", "RUN")])
def test_a_file_in_place_of_the_folder_is_refused_first(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: tuple[object, ...]
) -> None:
    (tmp_path / "file").write_text("")
    if words[0] != "plan":
        assert run(*words, "--csv", tmp_path / "file") == 1
        said = capsys.readouterr().err
        assert said == f"gradwire: --csv {tmp_path / 'file'} is a file; name a folder\n"
    assert run(*words, "--parquet", tmp_path / "file") == 1
    said = capsys.readouterr().err
    assert said == f"gradwire: --parquet {tmp_path / 'file'} is a file; name a folder\n"
