"""A paper's claims: figures from what commands print, and what becomes of them."""

from typing import Any

import pytest

from gradwire.results.reproduction import Claim, Trial, judged, not_run, read_paper, terms

SLOW, FAST = {"time_s": {"median": 6.0}, "bound_s": 2}, {"time_s": {"median": 2.0}, "bound_s": 2}


def claim(figure: str = "slow.time_s.median / fast.time_s.median", **changes: Any) -> Claim:
    trials = {"slow": Trial(command="bench allreduce"), "fast": Trial(command="plan job.json")}
    given = {"says": "", "source": "", "ours": "", "because": "", "expected": (2.9, 3.1), "trials": trials}
    return Claim(figure=figure, **(given | changes))


def test_a_figure_is_a_product_and_quotient_of_fields_and_numbers() -> None:
    outcome = judged(
        claim("slow.time_s.median * 2 / fast.time_s.median / slow.bound_s"), {"slow": [SLOW], "fast": [FAST]}
    )
    assert outcome.figure == 6.0 * 2 / 2.0 / 2


def test_with_several_seeds_it_is_of_the_means() -> None:
    slower = {"time_s": {"median": 8.0}}
    assert judged(claim(), {"slow": [SLOW, slower], "fast": [FAST]}).figure == (6 + 8) / 2 / 2
    trial = Trial(command="plan job.json", before=("make gossip --seed {seed} -o job.json",), seeds=2)
    assert trial.rounds == (
        ("make gossip --seed 0 -o job.json", "plan job.json"),
        ("make gossip --seed 1 -o job.json", "plan job.json"),
    )
    with pytest.raises(ValueError, match="where there are several seeds"):
        Trial(command="plan job.json", seeds=2)


@pytest.mark.parametrize(
    ("expected", "verdict"), [((2.9, 3.1), "holds"), ((3.1, 9), "differs"), ((3, 3), "holds")]
)
def test_a_figure_outside_what_is_expected_differs(expected: tuple[float, float], verdict: str) -> None:
    assert judged(claim(expected=expected), {"slow": [SLOW], "fast": [FAST]}).verdict == verdict


def test_a_run_that_is_not_valid_makes_its_claim_so_with_the_reason() -> None:
    row = {**SLOW, "verdict": "not valid", "reasons": ["the machine was busy"]}
    outcome = judged(claim(), {"slow": [row], "fast": [FAST]})
    assert (outcome.verdict, outcome.reasons) == ("not valid", ("slow: the machine was busy",))


@pytest.mark.parametrize("printed", [{}, {"time_s": None}, {"time_s": {"median": "long"}}])
def test_a_figure_that_a_command_does_not_print_is_named(printed: dict[str, Any]) -> None:
    outcome = judged(claim(), {"slow": [printed], "fast": [FAST]})
    assert (outcome.verdict, outcome.figure) == ("not valid", None)
    assert outcome.reasons == ("slow prints no time_s.median",)


def test_nothing_is_divided_by_zero() -> None:
    outcome = judged(claim("slow.bound_s / fast.bound_s"), {"slow": [SLOW], "fast": [{"bound_s": 0}]})
    assert outcome.reasons == ("fast.bound_s is 0",)


@pytest.mark.parametrize(
    "figure", ["", "slow.bound_s +", "slow.bound_s + fast.bound_s", "slow", "import os", "/ 2"]
)
def test_what_is_not_a_product_is_refused(figure: str) -> None:
    with pytest.raises(ValueError, match="figure"):
        terms(figure)


def test_a_claim_can_name_its_own_trials_only() -> None:
    with pytest.raises(ValueError, match="names 'other', which is not one of its trials"):
        claim("other.bound_s")


def test_what_was_not_run_says_why() -> None:
    outcome = not_run(claim(), "it sends packets")
    assert (outcome.verdict, outcome.figure, outcome.reasons) == ("not run", None, ("it sends packets",))
    assert outcome.to_json()["value"] is None


def test_a_claim_runs_commands_of_gradwire_only() -> None:
    with pytest.raises(ValueError, match="command"):
        Trial(command="rm -r x")
    with pytest.raises(ValueError, match="before"):
        Trial(command="plan x", before=("rm -r x",))


def test_a_file_without_what_cannot_be_said_is_not_a_papers() -> None:
    with pytest.raises(ValueError, match=r"^not a paper's file: cannot is missing$"):
        read_paper("{title: a, reference: b, about: c, claims: []}")
    with pytest.raises(ValueError, match=r"^not valid YAML: line 1: expected ',' or ']'"):
        read_paper("title: [a")
