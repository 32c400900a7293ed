"""`gradwire fabric --radix`: what is printed, and what it refuses beside it."""

import json
import re

import pytest

from gradwire.tools import cli


def printed(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as left:
        cli.main(["fabric", *arguments])
    return int(left.value.code or 0), *capsys.readouterr()


def test_a_row_has_the_fabric_and_what_a_host_of_it_costs(capsys: pytest.CaptureFixture[str]) -> None:
    """A 64-ary fat-tree: each host has 5 switch ports and 3 cables, 3.28 Tb/s cross its middle."""
    code, out, _ = printed(["--radix", "64"], capsys)
    (row,) = (re.split(r"\s{2,}", line.strip()) for line in out.splitlines() if "fat-tree" in line)
    assert code == 0
    assert row == ["fat-tree:k=64", "65,536", "5,120", "196,608", "3.277 Tb/s", "100%", "5", "3"]


def test_its_json_has_the_names_of_the_comparisons(capsys: pytest.CaptureFixture[str]) -> None:
    _, compared, _ = printed(["fat-tree:k=4", "--json"], capsys)
    _, listed, _ = printed(["--radix", "4", "--json"], capsys)
    (built,) = json.loads(compared)
    (row,) = (row for row in json.loads(listed) if row["fabric"] == "fat-tree:k=4")
    assert len(row) > 10
    assert row == {key: pytest.approx(built[key]) for key in row}


@pytest.mark.parametrize(("radix", "made"), [(2, "two switches"), (3, "a ring"), (4, "a ladder"), (5, "any")])
def test_it_says_what_grid_so_many_ports_make(
    radix: int, made: str, capsys: pytest.CaptureFixture[str]
) -> None:
    _, out, _ = printed(["--radix", str(radix)], capsys)
    (note,) = (line for line in out.splitlines() if line.startswith("A torus or mesh"))
    assert made in note
    for spec in re.findall(r"torus:x=\d,y=\d", note):
        _, of_grid, _ = printed([spec, "--json"], capsys)
        assert [one["radix"] for one in json.loads(of_grid)] == [radix]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--radix", "1"], "a switch has 2 to 1,024 ports, got 1"),
        (["--radix", "8", "star:hosts=4"], "--radix and a SPEC cannot be used together"),
        (["--radix", "8", "--svg", "x.svg"], "--radix and --svg cannot be used together"),
        (["--radix", "8", "--yaml"], "--radix and --yaml cannot be used together"),
    ],
)
def test_what_makes_no_sense_is_one_line(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = printed(arguments, capsys)
    assert (code, out) == (1, "")
    assert err.startswith(f"gradwire: {said}")
    assert err.count("\n") == 1
