"""`gradwire run`: a lab's cells, what becomes of its expectations, and the exit code for CI."""

import json
import os
import re
from dataclasses import fields
from pathlib import Path

import pandas as pd
import pytest

from gradwire.results.quantities import QUANTITIES
from gradwire.tools import cli
from gradwire.tools.labs.optionkeys import OF_COMMAND
from gradwire.tools.labs.schema import json_schema
from gradwire.tools.options.choices import MatrixChoices, NetworkChoices, RunChoices, TrafficChoices

ROOT = Path(__file__).parents[3]

LAB = """\
name: collisions
mode: plan
job: {bench: allreduce, begin: 1MiB, end: 2MiB, ranks: 4}
fabric: ["leaf-spine:leaves=2,spines=1,hosts=2,rate=50M", "star:hosts=4,rate=50M"]
algorithm: [ring, halving-doubling]
expect:
"""


OWN = "  - {{name: own, hosts: h0..{0}, switches: s, links: [{{a: h0..{0}, b: s}}]}}\n"


def gradwire(*arguments: str) -> int:
    with pytest.raises(SystemExit) as left:
        cli.main(["run", *arguments])
    assert isinstance(left.value.code, int)
    return left.value.code


def lab(folder: Path, *expectations: str, text: str = LAB) -> str:
    path = folder / "lab.yaml"
    path.write_text(text + "".join(f"  - {each}\n" for each in expectations))
    return str(path)


def test_the_exit_code_says_whether_all_is_as_expected(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Halving-doubling of 4 ranks exchanges S/2 with the neighbour, and S/4 with the other leaf, where two
    flows share the uplink: (1/2 + 2 · 1/4) / (3/4) = 4/3 of the bound, which a ring meets.
    """
    holds = (
        "ratio <= 1.34",
        '{that: ratio <= 1.01, where: {fabric: "star*"}}',
        '{that: "time of {algorithm: h*} / time of {algorithm: ring} > 1", where: {size: 2MiB, fabric: l*}}',
        '{bounded_by: leaf*->spine0, where: {fabric: "leaf-spine*", algorithm: halving-doubling}}',
        "{bounded_by: hosts' links, where: {fabric: star*}}",
    )
    assert gradwire(lab(tmp_path, *holds)) == 0
    assert capsys.readouterr().out.count("holds") == len(holds)
    assert gradwire(lab(tmp_path, *holds, "ratio <= 1.3")) == 4
    why = "fails: ratio <= 1.3: 1.333 for halving-doubling, linear, ecmp, 1.05 MB on leaf-spine"
    assert why in capsys.readouterr().out


def test_json_has_the_figures_and_the_outcomes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert gradwire(lab(tmp_path, "ratio <= 1.3"), "--json") == 4
    (found,) = json.loads(capsys.readouterr().out)
    assert [cell["algorithm"] for cell in found["planned"]] == (["ring"] * 2 + ["halving-doubling"] * 2) * 2
    assert (found["name"], found["mode"], found["exit_code"]) == ("collisions", "plan", 4)
    (outcome,) = found["expectations"]
    assert (outcome["verdict"], len(outcome["found"]), len(outcome["why"])) == ("fails", 8, 2)


def test_a_check_plans_everything_and_sends_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = LAB.replace("mode: plan\n", "")
    path = lab(tmp_path, "wrong == 0", "verdict == valid", text=text)
    assert gradwire("--check", path) == 0
    assert capsys.readouterr().out == f"{path}: 8 cells to bench; 2 expectations can be computed\n"


@pytest.mark.parametrize(
    ("expectation", "reason"),
    [
        ("wrong == 0", "line 7: wrong is only known after a run, and this lab has mode: plan"),
        ("{that: ratio <= 1, where: {algorithm: rign}}", "line 7: no cell has algorithm: rign"),
        ('"time of {algorithm: ring} <= 1s"', "line 7: 4 cells have algorithm: ring: "),
        (
            "iteration <= 1s",
            "line 7: ring, linear, ecmp, 1.05 MB on leaf-spine",
        ),
    ],
)
def test_an_expectation_that_cannot_be_computed_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], expectation: str, reason: str
) -> None:
    path = lab(tmp_path, expectation)
    assert gradwire(path) == 1
    captured = capsys.readouterr()
    assert captured.err.startswith(f"gradwire: {path}: {reason}")
    assert not captured.out


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("job: nowhere\n", "line 1: nowhere: No such file"),
        ("job: {sample: resnet}\n", "line 1: there is no sample 'resnet'; choose from ddp_gloo_4"),
        (
            "job: {make: gossip, workers: 4}\nmode: bench\n",
            "line 2: mode: bench needs a job like",
        ),
        ("job: {bench: allreduce}\nmode: replay\n", "line 2: the job is a bench: write mode: bench or"),
        ("job: {bench: allreduce}\niteration: 3\n", "line 2: iteration has no effect with mode: bench"),
        ("job: {make: ps}\nmode: plan\nrepeat: 3\n", "line 3: repeat has no effect with mode: plan"),
        ("job: {bench: alltoall, sizes: a.csv,\n begin: 1M}\n", "line 2: begin: the sizes are in a table"),
        ("job: {make: ps}\nmode: plan\n\nalgorithm: [rign]\n", "line 4: there is no algorithm 'rign'"),
        ("job: {make: ps}\nmode: plan\nfail: leaf9-spine1@1\n", "line 3: failure: fat-tree:k=4 has no node"),
        ("job: {make: ps}\nmode: plan\niteration: 77\n", "line 3: nothing to send in iteration 77"),
        ("job: {make: ps, nbytes: 5 apples}\nmode: plan\n", "line 1: '5 apples' is not a size"),
        ("job: {bench: allreduce, ranks: 1000000000}\n", "line 1: 1,000,000,000 ranks; gradwire plans at"),
        (
            f"job: {{make: ps}}\nplacement: [{'linear, ' * 999}]\nroutes: [{'ecmp, ' * 99}]\n",
            "line 1: 98,901 cells are too many; at most 10,000 are possible",
        ),
        (
            f"job: {{make: ps}}\nfabric:\n{OWN.format(2)}{OWN.format(3)}",
            "line 3: two different fabrics are named own: give each its own `name:`",
        ),
        ("job: {make: ps}\nmode: plan\nslow: [3=x2, 4]\n", "line 3: '4' does not name a slow rank"),
    ],
)
def test_what_cannot_be_planned_is_refused_with_the_line_that_says_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, reason: str
) -> None:
    path = tmp_path / "lab.yaml"
    path.write_text(text)
    assert gradwire(str(path), "--check") == 1
    error = capsys.readouterr().err.replace(str(tmp_path) + "/nowhere", "nowhere")
    assert error.startswith(f"gradwire: {path}: {reason}")
    assert error.count("\n") == 1


def test_what_a_run_will_not_have_is_refused_before_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = LAB.replace("mode: plan\n", "")
    assert gradwire("--check", lab(tmp_path, "wrong == 0", "exposed <= 1s", text=text)) == 1
    error = capsys.readouterr().err
    assert "line 7: ring, linear, ecmp, 1.05 MB on leaf-spine" in error
    assert error.endswith("has no exposed\n")


def test_a_lab_with_a_fault_keeps_those_before_it_from_being_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good = lab(tmp_path, "ratio <= 2")
    (tmp_path / "bad.yaml").write_text("job: nowhere\n")
    assert gradwire(good, str(tmp_path / "bad.yaml")) == 1
    assert not capsys.readouterr().out


def test_without_a_lab_the_command_says_what_to_write(capsys: pytest.CaptureFixture[str]) -> None:
    assert gradwire() == 1
    assert "write gradwire run lab.yaml" in capsys.readouterr().err


def test_a_lab_draws_its_cells_in_the_folder_of_its_results(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = LAB.replace("name: collisions\n", "draw: [html, svg, csv]\n").replace("2MiB", "1MiB")
    out = tmp_path / "out"
    assert gradwire(lab(tmp_path, "ratio <= 2", text=text), "--out", str(out)) == 0
    names = sorted(path.name for path in out.iterdir())
    assert [name for name in names if not name.endswith(".svg")] == ["cells.csv", "lab.yaml", "report.html"]
    drawings = [path.read_text() for path in sorted(out.glob("*.svg"))]
    assert len(drawings) == 4
    assert all(drawing.startswith("<svg") and "rank 3" in drawing for drawing in drawings)
    table = pd.read_csv(out / "cells.csv")
    assert table["algorithm"].tolist() == ["ring", "halving-doubling"] * 2
    assert table["ratio"].tolist() == pytest.approx([1, 4 / 3, 1, 1], abs=0.01)
    assert capsys.readouterr().out.count("drawn: ") == 6


def test_each_of_several_labs_has_a_folder_of_its_own(tmp_path: Path) -> None:
    text = LAB.replace("name: collisions\n", "draw: csv\n")
    same = lab(tmp_path, "ratio <= 2", text=text)
    assert gradwire(same, same, "--out", str(tmp_path / "out")) == 0
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["01-lab", "02-lab"]


def test_the_committed_schema_is_that_of_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert gradwire("--schema") == 0
    committed = (ROOT / "docs" / "lab.schema.json").read_text()
    assert capsys.readouterr().out == committed, "run ./gradwire run --schema > docs/lab.schema.json"


def test_the_schema_has_every_option_as_a_key() -> None:
    schema = json_schema()
    for choices in (MatrixChoices, NetworkChoices, TrafficChoices, RunChoices):
        keys = {each.name.replace("_", "-") for each in fields(choices) if each.name not in OF_COMMAND}
        assert keys <= set(schema["properties"]), choices
    assert schema["oneOf"] == [{"required": ["job"]}, {"required": ["jobs"]}]
    assert schema["additionalProperties"] is False


def test_the_page_on_labs_has_every_quantity_and_its_example_holds(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = (ROOT / "docs" / "labs.md").read_text()
    quantities = page.split("| quantity |")[1].split("\n\n")[0]
    assert re.findall(r"^\| `(\w+)`", quantities, re.MULTILINE) == list(QUANTITIES)
    (example,) = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
    (tmp_path / "collisions.yaml").write_text(example)
    assert gradwire(str(tmp_path / "collisions.yaml")) == 0
    assert capsys.readouterr().out.count("holds") == 3


def test_a_size_is_chosen_as_bench_takes_it_whatever_the_data_type(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job = "job: {bench: allreduce, begin: 64K, end: 128K, datatype: half}\nfabric: star:hosts=2\nmode: plan\n"
    path = lab(tmp_path, "{that: bound <= 10ms, where: {size: 64K}}", text=f"{job}expect:\n")
    assert gradwire(path, "--json") == 0
    (result,) = json.loads(capsys.readouterr().out)
    (bound_s,) = result["expectations"][0]["found"]
    assert bound_s == pytest.approx(65536 * 8 / (100e6 * 1448 / 1514), rel=0.01)  # 2(p-1)/p is 1


def test_a_lab_of_which_nothing_makes_sense_has_not_passed(tmp_path: Path) -> None:
    text = LAB.replace("expect:\n", "placement: hdrm\n")
    assert gradwire(lab(tmp_path, text=text)) == 3
    assert gradwire(lab(tmp_path, text=text.replace("placement: hdrm", "placement: [hdrm, linear]"))) == 0


def test_a_lab_may_come_on_standard_input_and_names_files_from_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "own.yaml").write_text("name: own\nhosts: h0..3\nswitches: s\nlinks: [{a: h0..3, b: s}]\n")
    piped = tmp_path / "piped.yaml"
    piped.write_text(
        "mode: plan\njob: {bench: allreduce, begin: 1MiB}\nfabric: own.yaml\nexpect: ratio <= 1.01\n"
    )
    monkeypatch.chdir(tmp_path)
    before = os.dup(0)
    try:
        with piped.open("rb") as file:
            os.dup2(file.fileno(), 0)
            assert gradwire("-") == 0
    finally:
        os.dup2(before, 0)
        os.close(before)
    assert "holds" in capsys.readouterr().out
