"""The summary's sentences say what the figures say, and name what is not known."""

from dataclasses import replace

import pytest

from gradwire.traces.analysis.analysis import Analysis
from gradwire.traces.analysis.bottleneck import JobBound
from gradwire.traces.analysis.bounds import Bound
from gradwire.traces.analysis.exposure import Straggler
from gradwire.traces.analysis.linerate import FabricRates, LineRate, line_rate
from gradwire.traces.analysis.percentiles import Percentiles
from gradwire.traces.analysis.shares import shares
from gradwire.traces.analysis.summary import loss_bps, sentences, window_bps
from tests.made_analysis import MS, made_analysis, made_flow


@pytest.fixture
def analysis() -> Analysis:
    return made_analysis()


def test_the_length_and_its_parts_are_those_of_all_iterations_but_the_warm_up(analysis: Analysis) -> None:
    first, _, _ = sentences(analysis)
    for words in (
        "takes 200 ms",
        "median of 2",
        "100 ms to 300 ms",
        "50% is compute or a busy host's own time, which packets do not tell apart, 30% communication",
        "20%",
    ):
        assert words in first
    second = replace(analysis, shares=shares(analysis.exposures, warm_up=1))
    assert "takes 300 ms (without the first, the warm-up)" in sentences(second)[0]


def test_what_the_parts_leave_out_and_a_single_iteration_are_said(analysis: Analysis) -> None:
    assert analysis.shares is not None
    long = replace(analysis.shares, long=(4, 7))
    said = "The parts are without iteration 4, iteration 7, which took more than 5 times as long."
    assert said in sentences(replace(analysis, shares=long))[0]
    assert "The parts are without" not in sentences(analysis)[0]
    only = replace(analysis.shares, n_iterations=1, n_warm_up=0)
    assert "(the only one seen, perhaps with" in sentences(replace(analysis, shares=only))[0]


def test_asynchronous_servers_have_no_late_worker(analysis: Analysis) -> None:
    assert analysis.shape is not None
    servers = replace(analysis.shape, kind="parameter-server", synchronous=False)
    assert "wait for no worker" in sentences(replace(analysis, shape=servers, stragglers=()))[1]


def test_a_link_that_bounded_the_job_leaves_no_doubt_about_compute(analysis: Analysis) -> None:
    bound = replace(analysis, job_bound=replace(analysis.job_bound, bound="link"))
    assert "50% is compute, 30% communication" in sentences(bound)[0]


def test_compute_that_hides_communication_is_named(analysis: Analysis) -> None:
    some = tuple(replace(one, overlapped_ns=one.time_ns // 10) for one in analysis.exposures)
    hidden = replace(analysis, shares=shares(some, warm_up=0))
    assert "50% is compute (10% with communication hidden under it)" in sentences(hidden)[0]


def test_shares_that_cannot_be_believed_are_not_said(analysis: Analysis) -> None:
    first, _, _ = sentences(replace(analysis, shares_refused=("85% could not be read",)))
    assert first.startswith("Where the time goes is not said, because 85% could not be read. ")
    assert "compute" not in first


def test_one_late_rank_is_named_and_several_are_not_blamed_alone(analysis: Analysis) -> None:
    assert sentences(analysis)[1].startswith("Rank 1 (10.0.0.2) is the late one: last in 2 of 2, 20 ms")
    both = replace(analysis, stragglers=(Straggler(0, 2, 30 * MS), Straggler(1, 2, 20 * MS)))
    assert sentences(both)[1].startswith("No one rank is always late: rank 0 (10.0.0.1) is last in 2 of 4")
    little = replace(analysis, stragglers=(Straggler(1, 2, 1000),))
    assert sentences(little)[1].startswith("No rank is late")
    assert "is unknown" in sentences(replace(analysis, stragglers=()))[1]


LINK = Bound("10.0.0.1", "out", "link", 2e9, 0.01, 0.5, 0.7, 0.7, 100 * MS, "spacing and trains")
BOUND = JobBound("link", 2e9, 0.01, "10.0.0.1", 0.7, "a link of about 2 Gb/s bounded it: held 70%")
NO_BOUND = JobBound("none", None, None, None, 0.0, "no link bounded it: no rate was held")
UNSURE = JobBound("unknown", None, None, None, 0.5, "it is unclear whether a link bounded it: hm")


def test_the_rate_is_compared_with_the_line_rate_that_was_given_or_measured(analysis: Analysis) -> None:
    assert "1 Gb/s (the median byte's), 10% of the line rate of 10 Gb/s" in sentences(analysis)[2]
    measured = replace(analysis, line_rate=LineRate(2e9, "measured", "10.0.0.1", "out"))
    assert "50% of the measured line rate of 2 Gb/s" in sentences(measured)[2]
    assert "; the line rate is not known (--line-rate); " in sentences(replace(analysis, line_rate=None))[2]


def test_a_line_rate_is_given_or_the_fabrics_or_a_bounding_links() -> None:
    fabric = FabricRates(4, 10**9, (10**8, 10**9))
    assert line_rate(10**10, fabric, [LINK], BOUND) == LineRate(1e10, "told")
    assert line_rate(None, fabric, [LINK], BOUND) == LineRate(1e9, "fabric")
    assert line_rate(None, None, [LINK], BOUND) == LineRate(2e9, "measured", "10.0.0.1", "out")
    assert line_rate(None, None, [LINK], NO_BOUND) is None
    assert line_rate(None, None, [], UNSURE) is None


def test_a_missing_proof_is_not_reported_as_a_disproof(analysis: Analysis) -> None:
    link = sentences(replace(analysis, job_bound=BOUND))[2]
    assert "; a link of about 2 Gb/s bounded it: held 70% (" in link
    unsure = sentences(replace(analysis, job_bound=UNSURE))[2]
    assert "; it is unclear whether a link bounded it: hm (" in unsure
    assert "no link bounded" not in unsure + link


def test_a_bus_bandwidth_that_cannot_be_is_not_printed(analysis: Analysis) -> None:
    hidden = tuple(replace(one, algbw_Bps=None, busbw_Bps=None) for one in analysis.transfers)
    said = sentences(replace(analysis, transfers=hidden))[2]
    assert said.startswith("The allreduces' bus bandwidth is unknown: ")
    assert "1 Gb/s" not in said


def test_what_bounded_the_rate_is_what_allows_no_more(analysis: Analysis) -> None:
    assert "; no link bounded it (no rate that a link would set was held), nor did" in sentences(analysis)[2]
    full = replace(analysis, line_rate=LineRate(1.2e9, "told"))
    assert "; the link bounded it" in sentences(full)[2]
    small = made_flow(window_nbytes=Percentiles(9, 125_000, 125_000, 125_000, 125_000, 125_000))
    assert (
        "; the receivers' windows bounded it: over the round-trip time at most 1 Gb/s"
        in sentences(replace(analysis, flows=(small,)))[2]
    )
    lossy = made_flow(retransmitted=70)
    assert "; loss bounded it" in sentences(replace(analysis, flows=(lossy,)))[2]


def test_limits_follow_their_closed_forms() -> None:
    assert window_bps(made_flow()) == 1_000_000 * 8 / 0.001
    resent = made_flow(retransmitted=100, payload_nbytes=1448 * 10_000)  # p = 1 %
    assert loss_bps(resent) == pytest.approx(1448 * 8 / 0.001 * 1.2247 / 0.1, rel=1e-4)
    assert loss_bps(made_flow()) == float("inf")


def test_without_training_the_summary_says_so_and_names_the_largest_flow(analysis: Analysis) -> None:
    empty = replace(
        analysis,
        missing="no gloo traffic",
        addresses=(),
        exposures=(),
        shares=None,
        stragglers=(),
        transfers=(),
        shape=None,
    )
    first, second, _ = sentences(empty)
    assert first == "No training was recognised: no gloo traffic."
    assert "10.0.0.1:1024 to 10.0.0.2:5000: 10,000,000 bytes in 100 ms, at 800 Mb/s" in second
    assert "No connection" in sentences(replace(empty, flows=(), burstiness=(), line_rate=None))[1]


def test_a_guess_from_bursts_names_nobody_and_explains_no_times(analysis: Analysis) -> None:
    first, second, _ = sentences(replace(analysis, framing="plain"))
    assert "guessed from bursts" in first
    assert "200 ms" in first
    assert "compute" not in first
    assert "rank" not in second
    once = shares([one for one in analysis.exposures if one.iteration == 0], warm_up=0)
    first, _, _ = sentences(replace(analysis, framing="plain", shares=once))
    assert first.endswith("iterations, if these are any, were not seen.")
