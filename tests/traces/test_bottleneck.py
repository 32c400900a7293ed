"""Which link bounded a job: from made trains of packets whose link's rate is known, and stored captures."""

from collections.abc import Iterator
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from gradwire.traces.analysis.analysis import Analysis, analyse, analyse_flows
from gradwire.traces.analysis.bottleneck import Bound, bounds, host_bounds
from gradwire.traces.analysis.bursts import Series, Way
from gradwire.traces.analysis.spacing import wire_nbytes
from gradwire.traces.reader import open_captures
from gradwire.traces.recognition.recognise import find_job

SAMPLES = Path(__file__).parents[2] / "traces" / "samples"
HOST, PEER = "10.0.0.1", "10.0.0.2"
FRAME, HEADERS = 1514, 66
MS = 1_000_000


def through_link(
    rate_bps: float,
    *,
    host: str = HOST,
    direction: Way = "out",
    bursts: int = 40,
    frames: int = 120,
    rest_ns: int = 30 * MS,
    jitter_ns: float = 20_000,
    seed: int = 0,
) -> Series:
    """Bursts of whole frames, one after the other as a link sends them, seen when each has been sent."""
    random = np.random.default_rng(seed)
    frame_ns = FRAME * 8e9 / rate_bps
    starts = np.arange(bursts) * (frames * frame_ns + rest_ns)
    time_ns = (starts[:, None] + np.arange(1, frames + 1) * frame_ns).ravel()
    time_ns += random.uniform(0, jitter_ns, len(time_ns))
    return Series(host, direction, np.sort(time_ns).astype(np.int64), np.full(len(time_ns), FRAME, np.int64))


def merged(one: Series, frames: int, *, at_last: bool = True) -> Series:
    """As with segmentation offload: each `frames` neighbours are one packet, seen with its last or first."""
    count = len(one.time_ns) // frames
    payload = FRAME - HEADERS
    place = np.arange(count) * frames + (frames - 1 if at_last else 0)
    return one._replace(
        time_ns=one.time_ns[place], nbytes=np.full(count, HEADERS + frames * payload, np.int64)
    )


def made_by_a_processor(seed: int = 0) -> Series:
    """Bursts of 64 KB packets, one every 10 to 60 µs: as a busy processor takes, now more, now less."""
    random = np.random.default_rng(seed)
    pace = np.exp(random.normal(0, 0.6, 60))[:, None]
    spacing = 20_000 * pace * np.exp(random.normal(0, 0.4, (60, 100)))
    spacing[:, 0] += random.uniform(5, 40, 60) * MS
    time_ns = np.cumsum(spacing.ravel()).astype(np.int64)
    return Series(HOST, "out", time_ns, np.full(len(time_ns), 66 + 45 * 1448, np.int64))


def links(found: tuple[Bound, ...]) -> list[Bound]:
    return [one for one in found if one.bound == "link"]


def test_a_merged_packet_costs_the_wire_a_header_for_each_segment() -> None:
    sizes = np.array([54, 66, 1514, 1515, 66 + 2 * 1448, 66 + 45 * 1448], np.int64)
    assert wire_nbytes(sizes).tolist() == [54, 66, 1514, 1515 + 66, 2 * 1514, 45 * 1514]


@pytest.mark.parametrize("rate_bps", [5e6, 25e6, 80e6])
def test_the_rate_of_a_full_link_is_found_with_its_share_of_the_time(rate_bps: float) -> None:
    """Held for the bursts, over the bursts and the rests between them that are short."""
    found, job = bounds([through_link(rate_bps)])
    (one,) = links(found)
    assert one.rate_bps == pytest.approx(rate_bps, rel=0.02)
    assert one.dispersed_share > 0.3
    burst_ns = 40 * 120 * FRAME * 8e9 / rate_bps
    assert one.held_share * one.in_flight_ns == pytest.approx(burst_ns, rel=0.05)
    assert one.utilisation is not None
    assert one.utilisation <= 1
    assert (job.bound, job.host) == ("link", HOST)
    assert job.rate_bps == pytest.approx(rate_bps, rel=0.02)


@pytest.mark.parametrize("at_last", [True, False])
@pytest.mark.parametrize("frames", [2, 4, 10])
@pytest.mark.parametrize("rate_bps", [25e6, 100e6])
def test_merging_packets_does_not_change_the_rate(rate_bps: float, frames: int, *, at_last: bool) -> None:
    plain = through_link(rate_bps)
    before = bounds([plain])[1].rate_bps
    after = bounds([merged(plain, frames, at_last=at_last)])[1].rate_bps
    assert before is not None
    assert after == pytest.approx(before, rel=0.02)


@pytest.mark.parametrize("seed", range(20))
def test_what_a_processor_spaces_is_no_link(seed: int) -> None:
    found, job = bounds([made_by_a_processor(seed)])
    assert links(found) == []
    assert job.bound == "none"
    assert job.evidence.startswith("no link bounded it")


def test_pairs_at_one_rate_without_a_plateau_are_no_link() -> None:
    """Two packets as a link of 100 Mb/s spaces them, then a rest of its own length: nothing is held."""
    random = np.random.default_rng(1)
    rests = random.uniform(3, 40, 800) * MS
    pair_ns = FRAME * 8e9 / 100e6
    first = np.cumsum(rests + pair_ns)
    time_ns = np.sort(np.concatenate([first, first + pair_ns])).astype(np.int64)
    found, job = bounds([Series(HOST, "out", time_ns, np.full(len(time_ns), FRAME, np.int64))])
    assert links(found) == []
    assert job.bound == "none"


def paced(rate_bps: float, *, clump: int) -> Series:
    """A rate that is held, by clumps of packets nearly at once: a window or a pacing application."""
    clump_ns = clump * FRAME * 8e9 / rate_bps
    random = np.random.default_rng(2)
    time_ns = np.concatenate(
        [number * clump_ns + np.cumsum(random.uniform(6_000, 60_000, clump)) for number in range(1500)]
    )
    return Series(HOST, "out", np.sort(time_ns).astype(np.int64), np.full(len(time_ns), FRAME, np.int64))


def test_a_plateau_that_the_spacing_does_not_show_is_unknown_not_disproved() -> None:
    found, job = bounds([paced(40e6, clump=3)])
    assert links(found) == []
    assert job.bound == "unknown"
    assert "could not be told" in job.evidence


def test_a_rate_that_no_share_of_a_known_link_explains_is_the_hosts_own() -> None:
    """A link of 100 Mb/s that three hosts share explains 40 Mb/s, one of 1 Gb/s that four share does not."""
    one = paced(40e6, clump=3)
    assert bounds([one], known_bps=[100_000_000], n_hosts=3)[1].bound == "unknown"
    assert bounds([one], known_bps=[10**9], n_hosts=4)[1].bound == "none"


def test_the_slower_link_is_found_beside_the_hosts_own() -> None:
    """40 % of the bytes leave at the host's 100 Mb/s, the rest at what an uplink of 40 Mb/s lets pass."""
    fast = through_link(100e6, bursts=24, frames=300)
    slow = through_link(40e6, bursts=36, frames=300, seed=3)
    after_ns = int(fast.time_ns[-1]) + 30 * MS
    both = Series(
        HOST,
        "in",
        np.concatenate([fast.time_ns, slow.time_ns + after_ns]),
        np.concatenate([fast.nbytes, slow.nbytes]),
    )
    found, job = bounds([both])
    assert [round((one.rate_bps or 0) / 1e6) for one in links(found)] == [40, 100]
    assert links(found)[0].utilisation is None  # not all bytes crossed that link
    assert job.rate_bps == pytest.approx(40e6, rel=0.02)


def test_half_of_another_hosts_link_is_a_share_of_it() -> None:
    """Two workers send to one server, packet by packet in turn, so each has half of the server's link."""
    into = through_link(20e6, direction="in", host=PEER)
    worker = Series(HOST, "out", into.time_ns[::2], into.nbytes[::2])
    found, job = bounds([worker, into])
    of_worker = [one for one in found if one.host == HOST]
    assert [one.bound for one in of_worker] == ["share"]
    assert of_worker[0].rate_bps == pytest.approx(10e6, rel=0.02)
    assert PEER in of_worker[0].evidence
    assert (job.bound, job.host) == ("link", PEER)
    assert job.rate_bps == pytest.approx(20e6, rel=0.02)


def test_a_share_of_another_hosts_link_names_that_link() -> None:
    """As above: the worker is bounded by the server's 20 Mb/s, of which it has half."""
    into = through_link(20e6, direction="in", host=PEER)
    worker = Series(HOST, "out", into.time_ns[::2], into.nbytes[::2])
    of_worker, of_server = host_bounds(bounds([worker, into])[0])
    assert (of_worker.bound, of_worker.limited_at) == ("share", PEER)
    assert of_worker.rate_bps == pytest.approx(20e6, rel=0.02)
    assert (of_server.bound, of_server.limited_at) == ("link", PEER)
    (alone,) = host_bounds(bounds([worker])[0])  # a link of half the rate would look the same
    assert alone.rate_bps is None or alone.rate_bps == pytest.approx(10e6, rel=0.02)


@pytest.mark.parametrize("rate_bps", [12e6, 25e6, 60e6])
def test_a_link_that_the_host_cannot_see_shows_in_what_comes_back(rate_bps: float) -> None:
    """Each burst leaves the host at 100 Mb/s, and is acknowledged as the slower link lets it pass."""
    back = through_link(rate_bps, seed=4)
    starts = back.time_ns.reshape(40, 120)[:, :1]
    random = np.random.default_rng(5)
    sent = starts + np.cumsum(random.uniform(0.9, 1.1, (40, 120)) * FRAME * 8e9 / 100e6, axis=1)
    left = Series(HOST, "out", sent.ravel().astype(np.int64), back.nbytes)
    before, _ = bounds([left])
    assert all(abs((one.rate_bps or 0) / rate_bps - 1) > 0.1 for one in links(before))
    found, job = bounds([left], acknowledged=[back])
    (host,) = host_bounds(found)
    assert host.rate_bps == pytest.approx(rate_bps, rel=0.02)
    assert host.evidence.startswith("by the acknowledgements")
    assert job.rate_bps == pytest.approx(rate_bps, rel=0.02)


def test_acknowledgements_add_no_second_link_of_one_rate() -> None:
    one = through_link(40e6)
    later = one._replace(time_ns=one.time_ns + 200_000)
    found, _ = bounds([one], acknowledged=[later])
    assert [bound.evidence.startswith("by") for bound in links(found)] == [False]


def test_acknowledgements_that_a_processor_spaces_show_no_link() -> None:
    one = made_by_a_processor()
    assert host_bounds(bounds([one], acknowledged=[one])[0])[0].bound == "none"


def test_a_rate_above_the_hosts_links_is_called_an_error() -> None:
    found, job = bounds([through_link(80e6)], known_bps=[50_000_000], most_bps=50e6)
    assert links(found) == []
    assert "an error of gradwire's" in found[0].evidence
    assert job.bound == "unknown"


def test_too_few_packets_are_no_disproof() -> None:
    found, job = bounds([through_link(20e6, bursts=1, frames=10)])
    assert [one.bound for one in found] == ["none"]
    assert job.bound == "unknown"
    assert bounds([])[1].bound == "unknown"


def hostile() -> Iterator[np.ndarray]:
    yield np.zeros(1000, np.int64)
    yield np.arange(1000, dtype=np.int64)
    yield np.sort(np.random.default_rng(5).integers(0, 1 << 62, 1000))
    yield np.concatenate([np.zeros(500, np.int64), np.full(500, (1 << 62) - 1, np.int64)])


@pytest.mark.parametrize("size", [1000, 1514, 65_535, (1 << 31) - 1])
def test_times_of_any_kind_are_survived(size: int) -> None:
    for time_ns in hostile():
        found, job = bounds([Series(HOST, "out", time_ns, np.full(len(time_ns), size, np.int64))])
        assert all(0 <= one.held_share <= 1 and 0 <= one.dispersed_share <= 1 for one in found)
        assert job.bound in ("link", "none", "unknown")


UNLIMITED = sorted(p.name for p in SAMPLES.iterdir() if p.is_dir() and not p.name.startswith("slow"))


@cache
def analysis(sample: str, *files: str) -> Analysis:
    trace = open_captures([SAMPLES / sample / name for name in files] or [SAMPLES / sample])
    if not len(trace.messages):
        return analyse_flows(trace, "no messages")
    return analyse(find_job(trace))


@pytest.mark.parametrize("sample", UNLIMITED)
def test_no_link_bounded_the_samples_of_links_without_a_limit(sample: str) -> None:
    found = analysis(sample)
    assert links(found.bounds) == []
    assert found.job_bound.bound == "none"
    assert {one.bound for one in found.host_bounds} == {"none"}


# Their README.md says which: on the leaf-spine the uplinks of 25 Mb/s, not the hosts' links of 50.  Every
# host's ring crosses one, to the next host or from the one before.
BOUND = [
    ("slow_ddp_8_mlp_star100M", 100, 8),
    ("slow_ddp_8_mlp_leafspine50M", 25, 8),
    ("slow_ps_2srv_4wk_star20M", 20, 6),
]


@pytest.mark.parametrize(("sample", "mbps", "n_hosts"), BOUND)
def test_the_link_that_bounded_each_host_is_found_without_the_manifest(
    sample: str, mbps: int, n_hosts: int
) -> None:
    found = analysis(sample)
    assert found.job_bound.bound == "link"
    assert found.job_bound.rate_bps == pytest.approx(mbps * 1e6, rel=0.05)
    assert [one.rate_bps for one in found.host_bounds] == pytest.approx([mbps * 1e6] * n_hosts, rel=0.05)


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
        assert "could not be told" in found.job_bound.evidence
    else:
        assert mine.rate_bps == pytest.approx(mbps * 1e6, rel=0.05)
        assert found.job_bound.host == mine.host
