"""The commands that send packets, as a person calls them."""

import json
import re
from pathlib import Path

import pytest

from gradwire.emu.project import PROJECT
from tests.real.commands import CARRIED_OUT, PS, gradwire, rows, with_given_calibration

pytestmark = pytest.mark.real

SMALL = ("--compute", "none", "--scale-bytes", "1/16", "--iteration", "1", "--repeat", "1")


def test_a_parameter_servers_capture_is_replayed_as_captured(tmp_path: Path) -> None:
    """One iteration: 4 pushes and 4 pulls of 340,008 / 16 bytes each; the server's link carries them all."""
    out = str(tmp_path / "runs")
    (row,) = rows(gradwire("replay", PS, "--fabric", "star:hosts=5,rate=20M", *SMALL, "--out", out, "--json"))
    assert row["wrong"] == 0
    assert row["ranks"] == 5
    assert row["bytes"] == 8 * round(340_008 / 16)
    assert row["bound_s"] == pytest.approx(4 * round(340_008 / 16) * 8 / (20e6 * 1448 / 1514))
    assert "switch0" in row["worst_link"]
    assert {"result.json", "verdict.json", "manifest.json", "links.parquet"} <= {
        path.name for path in Path(row["folder"]).iterdir()
    }


def test_a_matrix_names_the_cell_that_makes_no_sense_and_writes_the_page(tmp_path: Path) -> None:
    done = gradwire(
        *("bench", "allreduce", "-b", "64KiB", "--repeat", "1", "--fabric", "fat-tree:k=4,levels=2,rate=50M"),
        *("--algorithm", "halving-doubling", "--placement", "linear", "--placement", "hdrm"),
        *("--out", str(tmp_path / "runs"), "--html", str(tmp_path / "page.html")),
    )
    assert done.returncode in CARRIED_OUT, done.stderr
    assert (
        "refused: fat-tree, halving-doubling, hdrm, ecmp: placement hdrm works only on a BiGraph"
        in done.stdout
    )
    assert max(map(len, done.stdout.splitlines()[:-2])) <= 100
    assert "halving-doubling" in (tmp_path / "page.html").read_text()
    kept = gradwire("report", str(tmp_path / "runs"), "--html", str(tmp_path / "again.html"), "--json")
    assert kept.returncode == 0, kept.stderr
    (results,) = json.loads(kept.stdout)
    assert results["about"]["command"][:2] == ["bench", "allreduce"]
    assert [row["verdict"] == "refused" for row in results["rows"]] == [False, True]
    assert "halving-doubling" in (tmp_path / "again.html").read_text()


def test_a_plan_made_beforehand_is_carried_out_as_it_stands(tmp_path: Path) -> None:
    plan = str(tmp_path / "plan.json")
    made = gradwire("plan", PS, "--fabric", "star:hosts=5,rate=20M", *SMALL[:-2], "-o", plan)
    assert made.returncode == 0, made.stderr
    (row,) = rows(
        with_given_calibration("replay", plan, "--repeat", "1", "--out", str(tmp_path / "runs"), "--json")
    )
    assert row["wrong"] == 0
    refused = gradwire("replay", plan, "--fabric", "star:hosts=9")
    assert refused.returncode == 1
    assert refused.stderr.count("\n") == 1
    assert "--fabric is fixed in" in refused.stderr


def test_up_gives_mininets_prompt_on_a_fabric_where_everybody_reaches_everybody(tmp_path: Path) -> None:
    script = tmp_path / "commands"
    script.write_text("pingall\n")
    done = gradwire("up", "bigraph:n=4,m=2", "--script", str(script))
    assert done.returncode == 0, done.stderr
    assert "0% dropped (56/56 received)" in done.stderr  # where Mininet says everything


def test_the_demo_runs_to_its_end_and_every_sum_is_right(tmp_path: Path) -> None:
    made = rows(with_given_calibration("demo", "--repeat", "1", "--out", str(tmp_path / "runs"), "--json"))
    assert len(made) == 8
    assert "refused" not in [row["verdict"] for row in made]
    assert all(row["wrong"] == 0 for row in made)
    assert {row["fabric"].partition(":")[0] for row in made} == {"leaf-spine", "fat-tree", "bigraph"}
    assert (tmp_path / "runs" / "report.html").exists()


def test_a_fabric_from_a_file_comes_up_with_its_own_names(tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text("alpha ping -c 1 -W 5 h7\n")
    done = gradwire("up", str(PROJECT / "docs" / "examples" / "bigraph.yaml"), "--script", str(script))
    assert done.returncode == 0, done.stderr
    assert "bigraph-by-hand is up: 8 hosts, 4 switches" in done.stdout
    assert "1 packets transmitted, 1 received" in done.stdout + done.stderr


def test_delays_are_there_or_are_refused_before_anything_is_built(tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text("h0 ping -c 3 -W 5 h1\n")
    done = gradwire("up", "star:hosts=2,delay=5ms", "--script", str(script))
    if done.returncode == 0:  # a kernel with netem: there and back over two cables
        found = re.search(r"rtt min/avg/max/mdev = ([\d.]+)/", done.stdout + done.stderr)
        assert found
        assert 20 <= float(found[1]) < 25
    else:
        assert done.returncode == 1
        assert "no netem" in done.stderr
        assert done.stderr.count("\n") == 1
        assert "is up" not in done.stdout


def test_a_row_is_inside_the_error_bar_of_its_prediction_or_not_valid(tmp_path: Path) -> None:
    """Of 1 KiB a large part of the time is the machine's own, of 1 MiB hardly any."""
    sizes = ("-b", "1KiB", "-e", "1MiB", "-f", "1024", "--repeat", "2")
    fabric = ("--fabric", "star:hosts=4,rate=50M", "--out", str(tmp_path / "runs"))
    small, large = rows(gradwire("bench", "allreduce", *sizes, *fabric, "--json"))
    assert small["machine_share"] > 0.25 and large["machine_share"] < 0.1
    assert small["verdict"] == "not valid"
    assert any("of its time is the machine's own per step" in reason for reason in small["reasons"])
    low_s, high_s = large["predicted_low_s"], large["predicted_high_s"]
    assert 0.9 <= low_s / large["predicted_s"] <= 1 <= high_s / large["predicted_s"] <= 1.1
    inside = low_s <= large["time_s"]["median"] <= high_s
    assert any("its predicted time" in reason for reason in large["reasons"]) is not inside
    measured = json.loads((Path(large["folder"]) / "verdict.json").read_text())["calibration"]["hosts"]
    message_s = measured["message_s"]  # nothing where a crowd answers as fast as a pair that has to wake up
    assert 0 <= message_s["low"] <= message_s["middle"] <= message_s["high"] < 0.02
    assert message_s["middle"] + measured["wire_s"] > 0 and 0 < measured["start_s"]["middle"] < 0.02
