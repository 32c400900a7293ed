"""Transfers carry their algorithm, and their share of the line rate."""

from pathlib import Path

import pytest

from gradwire.traces.analysis.analysis import analyse
from gradwire.traces.analysis.transfers import iterations
from gradwire.traces.reader import open_trace
from gradwire.traces.recognition.recognise import Job, find_job

SAMPLES = Path(__file__).parents[2] / "traces" / "samples"


@pytest.fixture(scope="module")
def job() -> Job:
    return find_job(open_trace([SAMPLES / "ddp_gloo_8"]))


def test_the_share_of_the_line_rate_is_busbw_over_it(job: Job) -> None:
    reduced = [one for one in analyse(job, 10**11).transfers if one.kind == "allreduce"]
    assert len(reduced) == 3
    for one in reduced:
        assert one.line_share == pytest.approx(one.nbytes * 2 * 7 / 8 * 8e9 / one.time_ns / 1e11)


def test_a_bus_bandwidth_above_the_line_rate_is_not_given(job: Job) -> None:
    """On links of 1 Mb/s the sample's times cannot be right."""
    reduced = [one for one in analyse(job, 10**6).transfers if one.kind == "allreduce"]
    assert len(reduced) == 3
    assert {(one.algbw_Bps, one.busbw_Bps, one.line_share) for one in reduced} == {(None, None, None)}


def test_algorithms_are_those_of_the_operations(job: Job) -> None:
    analysis = analyse(job)
    assert {one.algorithm for one in analysis.transfers if one.kind == "allreduce"} == {"ring"}
    uses = {(use.kind, use.algorithm): use.count for use in analysis.algorithms}
    assert uses["allreduce", "ring"] == 3
    assert sum(uses.values()) == len(job.operations)
    assert all(use.evidence for use in analysis.algorithms)


def test_an_iteration_of_which_no_rank_shows_its_length_is_left_out(job: Job) -> None:
    """Mutated captures of a parameter server had one: nobody's exposure was of it."""
    analysis = analyse(job)
    some, exposures = analysis.transfers, analysis.exposures
    lost = exposures[0].iteration
    left = iterations(job, some, [one for one in exposures if one.iteration != lost])
    whole = iterations(job, some, exposures)
    assert [one.iteration for one in left] == [one.iteration for one in whole if one.iteration != lost]
