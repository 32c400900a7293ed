"""Every kind of statement comes with how sure it is and why."""

from dataclasses import replace

from gradwire.traces.analysis.certainty import statements
from gradwire.traces.analysis.linerate import LineRate
from tests.made_analysis import made_analysis


def test_what_was_recognised_comes_with_its_confidence_and_evidence() -> None:
    said = {one.what: one for one in statements(made_analysis())}
    assert said["allreduce: ring, 2×"].confidence == 0.9
    assert said["allreduce: ring, 2×"].evidence == "each rank sends to one other"
    assert said["1 connection speaks gloo"].confidence == 1.0
    assert said["the job's shape: allreduce"].evidence == "all bytes are in allreduces"
    assert said["ranks"].evidence == "as given"


def test_a_line_rate_is_sure_only_if_it_was_given() -> None:
    made = made_analysis()
    rates = {
        None: "not given",
        LineRate(1e9, "measured", "10.0.0.1", "out"): "measured",
        made.line_rate: "as given",
    }
    for rate, words in rates.items():
        (line,) = [one for one in statements(replace(made, line_rate=rate)) if one.what == "line rate"]
        assert line.evidence.startswith(words)
        assert (line.confidence == 1.0) == (words == "as given")


def test_drops_are_reported_as_the_files_give_them() -> None:
    made = made_analysis()
    (lack,) = [one for one in statements(made) if one.what == "what the captures lack"]
    assert "do not say what was dropped" in lack.evidence
    counted = replace(made, files=(replace(made.files[0], dropped=3), replace(made.files[0], dropped=4)))
    (lack,) = [one for one in statements(counted) if one.what == "what the captures lack"]
    assert lack.evidence.startswith("7 packets dropped by the capture")
