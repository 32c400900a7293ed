"""Which link bounded each host and the job: from made-up trains of packets, and from stored captures."""

from collections.abc import Sequence
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from gradwire.traces.analysis.analysis import Analysis, analyse, analyse_flows
from gradwire.traces.analysis.bottleneck import HostBound, JobBound, host_bounds, job_bound
from gradwire.traces.analysis.bounds import held_bounds
from gradwire.traces.analysis.bursts import Series
from gradwire.traces.reader import open_captures
from gradwire.traces.recognition.recognise import find_job
from tests.made_series import FRAME, HOST, MS, PEER, made_by_a_processor, paced, through_link

SAMPLES = Path(__file__).parents[2] / "traces" / "samples"


def of_job(series: Sequence[Series], known_bps: Sequence[int] = (), n_hosts: int = 1) -> JobBound:
    return job_bound(held_bounds(series, known_bps), known_bps, n_hosts)


def of_hosts(series: Sequence[Series], acknowledged: Sequence[Series] = ()) -> tuple[HostBound, ...]:
    return host_bounds([one.bound for one in held_bounds(series, acknowledged=acknowledged)])


@pytest.mark.parametrize("rate_bps", [5e6, 25e6, 80e6])
def test_a_full_link_bounded_the_job(rate_bps: float) -> None:
    job = of_job([through_link(rate_bps)])
    assert (job.bound, job.host) == ("link", HOST)
    assert job.rate_bps == pytest.approx(rate_bps, rel=0.02)


@pytest.mark.parametrize("seed", range(20))
def test_what_a_processor_spaces_bounds_nothing(seed: int) -> None:
    job = of_job([made_by_a_processor(seed)])
    assert job.bound == "none"
    assert job.evidence.startswith("no link bounded it")


def test_a_plateau_that_the_spacing_does_not_show_is_unknown_not_disproved() -> None:
    job = of_job([paced(40e6, clump=3)])
    assert job.bound == "unknown"
    assert "unclear whether a link bounded it" in job.evidence


def test_a_rate_that_no_share_of_a_known_link_explains_is_the_hosts_own() -> None:
    """A link of 100 Mb/s that three hosts share explains 40 Mb/s, one of 1 Gb/s that four share does not."""
    one = paced(40e6, clump=3)
    assert of_job([one], [100_000_000], n_hosts=3).bound == "unknown"
    assert of_job([one], [10**9], n_hosts=4).bound == "none"


def test_the_slower_of_two_links_bounded_the_job() -> None:
    """It was full for longer than the host's own link of 100 Mb/s."""
    fast = through_link(100e6, bursts=24, frames=300)
    slow = through_link(40e6, bursts=36, frames=300, seed=3)
    after_ns = int(fast.time_ns[-1]) + 30 * MS
    both = fast._replace(
        time_ns=np.concatenate([fast.time_ns, slow.time_ns + after_ns]),
        nbytes=np.concatenate([fast.nbytes, slow.nbytes]),
    )
    assert of_job([both]).rate_bps == pytest.approx(40e6, rel=0.02)


def test_a_link_that_hosts_share_bounded_the_job() -> None:
    """Two workers send to one server, packet by packet in turn: its link is full, those of theirs are not."""
    into = through_link(20e6, direction="in", host=PEER)
    job = of_job([Series(HOST, "out", into.time_ns[::2], into.nbytes[::2]), into])
    assert (job.bound, job.host) == ("link", PEER)
    assert job.rate_bps == pytest.approx(20e6, rel=0.02)


def test_a_share_of_another_hosts_link_names_that_link() -> None:
    """The worker is bounded by the server's 20 Mb/s, of which it has half."""
    into = through_link(20e6, direction="in", host=PEER)
    worker = Series(HOST, "out", into.time_ns[::2], into.nbytes[::2])
    of_worker, of_server = of_hosts([worker, into])
    assert (of_worker.bound, of_worker.limited_at) == ("share", PEER)
    assert of_worker.rate_bps == pytest.approx(20e6, rel=0.02)
    assert (of_server.bound, of_server.limited_at) == ("link", PEER)
    (alone,) = of_hosts([worker])  # a link of half the rate would look the same
    assert alone.rate_bps is None or alone.rate_bps == pytest.approx(10e6, rel=0.02)


@pytest.mark.parametrize("rate_bps", [12e6, 25e6, 60e6])
def test_a_link_that_the_host_cannot_see_shows_in_what_comes_back(rate_bps: float) -> None:
    """Each burst leaves the host at 100 Mb/s, and is acknowledged as the slower link lets it pass."""
    back = through_link(rate_bps, seed=4)
    starts = back.time_ns.reshape(40, 120)[:, :1]
    random = np.random.default_rng(5)
    sent = starts + np.cumsum(random.uniform(0.9, 1.1, (40, 120)) * FRAME * 8e9 / 100e6, axis=1)
    left = Series(HOST, "out", sent.ravel().astype(np.int64), back.nbytes)
    before = [one.bound for one in held_bounds([left]) if one.bound.bound == "link"]
    assert all(abs((one.rate_bps or 0) / rate_bps - 1) > 0.1 for one in before)
    (host,) = of_hosts([left], acknowledged=[back])
    assert host.rate_bps == pytest.approx(rate_bps, rel=0.02)
    assert host.evidence.startswith("by the acknowledgements")
    job = job_bound(held_bounds([left], acknowledged=[back]))
    assert job.rate_bps == pytest.approx(rate_bps, rel=0.02)


def test_a_rate_that_no_link_can_have_leaves_the_job_unknown() -> None:
    assert job_bound(held_bounds([through_link(80e6)], [50_000_000], 50e6)).bound == "unknown"


def test_too_few_packets_are_no_disproof() -> None:
    assert of_job([through_link(20e6, bursts=1, frames=10)]).bound == "unknown"
    assert of_job([]).bound == "unknown"


UNLIMITED = sorted(p.name for p in SAMPLES.iterdir() if p.is_dir() and not p.name.startswith("slow"))


@cache
def analysis(sample: str, *files: str) -> Analysis:
    trace = open_captures([SAMPLES / sample / name for name in files] or [SAMPLES / sample])
    if not len(trace.messages):
        return analyse_flows(trace, "no messages")
    return analyse(find_job(trace))


@pytest.mark.broad(3)
@pytest.mark.parametrize("sample", UNLIMITED)
def test_no_link_bounded_the_samples_of_links_without_a_limit(sample: str) -> None:
    found = analysis(sample)
    assert "link" not in {one.bound for one in found.bounds}
    assert found.job_bound.bound == "none"
    assert {one.bound for one in found.host_bounds} == {"none"}


# Their README.md says which: on the leaf-spine the uplinks of 25 Mb/s, not the hosts' links of 50.  Every
# host's ring crosses one, to the next host or from the one before.
BOUND = [
    ("slow_ddp_8_mlp_star100M", 100, 8),
    ("slow_ddp_8_mlp_leafspine50M", 25, 8),
    ("slow_ps_2srv_4wk_star20M", 20, 6),
]


@pytest.mark.broad(3)
@pytest.mark.parametrize(("sample", "mbps", "n_hosts"), BOUND)
def test_the_link_that_bounded_each_host_is_found_without_the_manifest(
    sample: str, mbps: int, n_hosts: int
) -> None:
    found = analysis(sample)
    assert found.job_bound.bound == "link"
    assert found.job_bound.rate_bps == pytest.approx(mbps * 1e6, rel=0.01)
    assert [one.rate_bps for one in found.host_bounds] == pytest.approx([mbps * 1e6] * n_hosts, rel=0.01)


@pytest.mark.broad(8)
@pytest.mark.parametrize(
    ("sample", "mbps", "rank"), [(name, mbps, rank) for name, mbps, n in BOUND for rank in range(n)]
)
def test_one_hosts_capture_shows_the_link_that_bounded_it(sample: str, mbps: int, rank: int) -> None:
    """But for a worker of parameter servers: that four of them share a server's link is not seen from one."""
    found = analysis(sample, f"h{rank}.pcap.gz")
    (mine,) = found.host_bounds
    assert mine.host == f"10.0.0.{rank + 1}"
    if sample.startswith("slow_ps") and rank >= 2:
        assert mine.bound == found.job_bound.bound == "unknown"
        assert "unclear whether a link bounded it" in found.job_bound.evidence
    else:
        assert mine.rate_bps == pytest.approx(mbps * 1e6, rel=0.05)
        assert found.job_bound.host == mine.host
