"""A command line that is wrong: one line that says what, and the nearest name that there is."""

import pytest

from gradwire.planning.fabrics.spec import parse_fabric
from gradwire.planning.failures import parse_failures
from gradwire.planning.placement import place
from gradwire.planning.routing.policies import policy
from gradwire.tools import cli
from gradwire.traces.schedules.collectives import algorithm
from gradwire.traces.units import did_you_mean


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["plna"], "there is no command 'plna' (did you mean plan?); see ./gradwire help"),
        (["help", "replya"], "there is no command 'replya' (did you mean replay?); see ./gradwire help"),
        (["zzzz"], "there is no command 'zzzz'; see ./gradwire help"),
        (
            ["plan", "x", "--fabrc", "s"],
            "plan has no option --fabrc (did you mean --fabric?); see ./gradwire help plan",
        ),
        (["plan", "x", "--output", "p.json"], "--output is now called --out; see ./gradwire help plan"),
        (["extract", "x", "--output=j.json"], "--output is now called --out; see ./gradwire help extract"),
        (["doctor", "--output", "x"], "doctor has no option --output; see ./gradwire help doctor"),
        (["fabric"], "missing argument 'SPEC' (or --radix N); see ./gradwire help fabric"),
        (["doctor", "now"], "got unexpected extra argument(s) (now); see ./gradwire help doctor"),
        (["--versio"], "gradwire has no option --versio (did you mean --version?); see ./gradwire help"),
    ],
)
def test_a_wrong_command_line_is_one_line_with_exit_code_2(
    arguments: list[str], line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as left:
        cli.main(arguments)
    assert left.value.code == 2
    assert capsys.readouterr().err == f"gradwire: {line}\n"


def test_the_nearest_name_is_offered_and_only_one_that_is_near() -> None:
    assert did_you_mean("rign", ["ring", "tree"]) == " (did you mean ring?)"
    assert did_you_mean("RING", ["ring", "tree"]) == " (did you mean ring?)"
    assert did_you_mean("zzz", ["ring", "tree"]) == ""
    assert len(did_you_mean("r" * 10**7, ["ring"])) < 100


STAR = parse_fabric("star:hosts=4")


@pytest.mark.parametrize(
    ("wrong", "meant"),
    [
        (lambda: parse_fabric("fattree:k=4"), "(did you mean fat-tree?); choose from bigraph, fat-tree"),
        (lambda: parse_fabric("fat-tree:4"), "'4' is not written as key=value: write fat-tree:k=4"),
        (lambda: parse_fabric("bigraph:8,2"), "write bigraph:n=8,m=2"),
        (lambda: parse_fabric("star:hosts=4,rtae=1G"), "star has no key 'rtae' (did you mean rate?)"),
        (lambda: parse_fabric("star:hosts=4,rate=100"), "at least 1M, got 100 bit/s (did you mean 100M?)"),
        (lambda: algorithm("rign"), "(did you mean ring?)"),
        (lambda: policy("ecpm"), "(did you mean ecmp?)"),
        (lambda: place("lineer", STAR, 4, 0), "(did you mean linear?)"),
        (
            lambda: parse_failures("leaf0-spine1@1", parse_fabric("fat-tree:k=4")),
            "has no node 'leaf0'; its switches are edge0..7, agg0..7, core0..3",
        ),
        (lambda: parse_failures("cor0@1", parse_fabric("fat-tree:k=4")), "(did you mean core0?)"),
    ],
)
def test_a_name_that_is_not_there_brings_the_one_that_was_meant(wrong: object, meant: str) -> None:
    assert callable(wrong)
    with pytest.raises(ValueError) as raised:
        wrong()
    assert meant in str(raised.value)
