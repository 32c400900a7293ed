"""Clocks that are apart are found and put right within what is claimed; clocks that agree are left alone."""

import json
import struct
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gradwire.traces.analysis.analysis import analyse, to_json
from gradwire.traces.analysis.summary import sentences
from gradwire.traces.packets.capture import read_capture
from gradwire.traces.packets.clockbounds import BEND_NS
from gradwire.traces.packets.clocks import Clocks, compare_clocks
from gradwire.traces.packets.directions import by_direction
from gradwire.traces.packets.packets import Packets
from gradwire.traces.reader import open_captures
from gradwire.traces.recognition.recognise import find_job
from tests.made_captures import Record, pcap, tcp

SAMPLES = Path(__file__).parents[2] / "traces" / "samples"
HOSTS = ("10.0.0.1", "10.0.0.2", "10.0.0.3")
BEGIN_NS = 1_700_000_000 * 10**9
DURATION_NS = 20 * 10**9
YEAR_NS = 365 * 86400 * 10**9
ACK_AT = 14 + 20 + 8


class Clock(NamedTuple):
    """What a host's clock shows at a true time."""

    ahead_ns: int = 0
    drift: float = 0.0
    step_ns: int = 0  # after half of the time

    def shows(self, true_ns: int) -> int:
        since_ns = true_ns - BEGIN_NS
        late = self.step_ns * (since_ns > DURATION_NS // 2)
        return true_ns + self.ahead_ns + round(since_ns * self.drift) + late


def frame(src: str, dst: str, seq: int, ack: int, nbytes: int) -> bytes:
    made = bytearray(tcp((src, 4000), (dst, 4000), seq, b"x" * nbytes))
    struct.pack_into("!I", made, ACK_AT, ack)
    return bytes(made)


def talk(
    folder: Path,
    clocks: Sequence[Clock],
    rng: Random,
    base_ns: dict[tuple[int, int], int],
    queue_ns: int = 5_000_000,
    received: bool = True,
    silent: frozenset[tuple[int, int]] = frozenset(),
) -> tuple[list[Packets], list[list[int]]]:
    """Captures of three hosts that send each other data and acknowledge it, and the packets' true times.

    A packet takes `base_ns` of its pair and a random queue, together less than the time to the next one: what
    is acknowledged has arrived.  Pairs in `silent` send nothing.
    """
    records: list[list[tuple[int, bytes]]] = [[] for _ in HOSTS]
    for one, other in [(0, 1), (0, 2), (1, 2)]:
        seq, ack = 1000, 1000
        for step in range(150):
            asked_ns = BEGIN_NS + step * DURATION_NS // 150 + rng.randrange(10_000_000)
            arrived_ns = (
                asked_ns + base_ns[one, other] + min(30_000_000, round(rng.expovariate(1 / queue_ns)))
            )
            left_ns = arrived_ns + 50_000
            back_ns = left_ns + base_ns[other, one] + min(30_000_000, round(rng.expovariate(1 / queue_ns)))
            ask, answer = (
                frame(HOSTS[one], HOSTS[other], seq, ack, 1000),
                frame(HOSTS[other], HOSTS[one], ack, seq + 1000, 10),
            )
            seq, ack = seq + 1000, ack + 10
            for src, dst, sent_ns, got_ns, made in (
                (one, other, asked_ns, arrived_ns, ask),
                (other, one, left_ns, back_ns, answer),
            ):
                if (src, dst) not in silent:
                    records[src].append((sent_ns, made))
                    if received:
                        records[dst].append((got_ns, made))
    captures, times = [], []
    for number, (clock, some) in enumerate(zip(clocks, records, strict=True)):
        if not some:
            continue
        some.sort(key=lambda record: record[0])
        path = folder / f"h{number}.pcap"
        path.write_bytes(pcap([Record(clock.shows(true_ns), made) for true_ns, made in some]))
        captures.append(read_capture(path))
        times.append([true_ns for true_ns, _ in some])
    return captures, times


def compared(captures: Sequence[Packets]) -> tuple[tuple[Packets, ...], Clocks]:
    return compare_clocks(captures, by_direction(captures))


def delays(rng: Random) -> dict[tuple[int, int], int]:
    """Asymmetric: from 20 µs to 30 ms, either way of each pair on its own."""
    return {(a, b): round(10 ** rng.uniform(4.3, 7.5)) for a in range(3) for b in range(3) if a != b}


@pytest.mark.long
@settings(max_examples=60, deadline=None)
@given(
    ahead_ns=st.one_of(
        st.integers(-53 * YEAR_NS, 53 * YEAR_NS), st.integers(-(10**9), 10**9), st.integers(-(10**7), 10**7)
    ),
    ppm=st.floats(-200, 200),
    received=st.booleans(),
    seed=st.integers(0, 2**32),
)
@example(ahead_ns=0, ppm=37.0, received=True, seed=11865)
def test_times_are_right_within_what_is_claimed(ahead_ns: int, ppm: float, received: bool, seed: int) -> None:
    rng = Random(seed)
    clocks = (Clock(), Clock(), Clock(ahead_ns, ppm * 1e-6))
    with TemporaryDirectory() as folder:
        captures, times = talk(Path(folder), clocks, rng, delays(rng), received=received)
        moved, found = compared(captures)
    assert found.comparable
    of = {one.host: one for one in found.hosts}
    for good in (of[HOSTS[0]], of[HOSTS[1]]):  # the other two may seem to agree better, if they can be one
        assert not good.corrected or abs(good.offset_ns) <= good.uncertainty_ns + STAMP_NS
    bad = of[HOSTS[2]]
    error_ns = np.abs(moved[2].time_ns - np.array(times[2])).max()
    assert error_ns <= bad.error_ns + STAMP_NS
    if abs(ahead_ns) > 200_000_000:  # more than any round trip here: proven
        assert bad.corrected
        assert abs(bad.offset_ns - ahead_ns) <= bad.uncertainty_ns + STAMP_NS + EDGE_NS
    if not bad.corrected:  # as it was read
        assert np.array_equal(moved[2].time_ns, captures[2].time_ns)


STAMP_NS = 2_000  # time stamps are of µs
EDGE_NS = 300_000  # the offset is that of the first exchange that says something, 200 ppm and a second later


@pytest.mark.long
@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**32), received=st.booleans())
def test_one_clock_is_never_corrected_whatever_the_queues(seed: int, received: bool) -> None:
    rng = Random(seed)
    with TemporaryDirectory() as folder:
        captures, _ = talk(Path(folder), (Clock(),) * 3, rng, delays(rng), 30_000_000, received)
        moved, found = compared(captures)
    assert found.comparable
    for one, packets, before in zip(found.hosts, moved, captures, strict=True):
        assert not one.corrected
        assert packets is before
        assert abs(one.offset_ns) <= one.uncertainty_ns + 2_000


def test_a_drift_is_measured(tmp_path: Path) -> None:
    rng = Random(1)
    clocks = (Clock(), Clock(), Clock(10**9, 150e-6))
    base_ns = {(a, b): 100_000 for a in range(3) for b in range(3) if a != b}
    captures, _ = talk(tmp_path, clocks, rng, base_ns, queue_ns=100_000)
    (bad,) = (one for one in compared(captures)[1].hosts if one.corrected)
    assert bad.drift_ppm == pytest.approx(150, abs=15)


@pytest.mark.long
@settings(max_examples=20, deadline=None)
@given(
    step_ns=st.one_of(st.integers(-YEAR_NS, YEAR_NS), st.integers(-(10**9), 10**9)),
    ppm=st.floats(-200, 200),
    received=st.booleans(),
    seed=st.integers(0, 2**32),
)
def test_a_clock_that_was_set_meanwhile_is_right_within_what_is_claimed_or_refused(
    step_ns: int, ppm: float, received: bool, seed: int
) -> None:
    rng = Random(seed)
    base_ns = {(a, b): 100_000 for a in range(3) for b in range(3) if a != b}
    clocks = (Clock(), Clock(), Clock(rng.randrange(10**9), ppm * 1e-6, step_ns))
    with TemporaryDirectory() as folder:
        captures, times = talk(Path(folder), clocks, rng, base_ns, received=received)
        moved, found = compared(captures)
    bad = found.hosts[2]
    if received and abs(step_ns) > 300_000_000:  # more than any pause between two packets here
        assert bad.comparable
        assert bad.corrected
        assert bad.set_before == sum(time_ns - BEGIN_NS <= DURATION_NS // 2 for time_ns in times[2])
        assert abs(bad.set_ns - step_ns) <= 2 * bad.uncertainty_ns + STAMP_NS
    error_ns = np.abs(moved[2].time_ns - np.array(times[2])).max()
    if bad.set_before is not None:
        assert error_ns <= bad.error_ns + STAMP_NS
    elif bad.comparable and received:  # a step below what the bounds leave open is not seen
        assert error_ns <= bad.error_ns + STAMP_NS + abs(step_ns)
        assert abs(step_ns) <= 2 * bad.error_ns + BEND_NS
    elif bad.comparable:  # acknowledgements wait for the next request here, 133 ms and some
        assert abs(step_ns) <= 200_000_000


def test_a_clock_that_was_set_twice_is_not_compared(tmp_path: Path) -> None:
    rng = Random(2)
    base_ns = {(a, b): 100_000 for a in range(3) for b in range(3) if a != b}
    captures, times = talk(tmp_path, (Clock(), Clock(), Clock()), rng, base_ns)
    late_ns = np.array(times[2]) - BEGIN_NS
    twice = captures[2].time_ns + 3 * 10**9 * ((late_ns > 5 * 10**9) & (late_ns < 12 * 10**9))
    found = compared([*captures[:2], replace(captures[2], time_ns=twice)])[1]
    assert [one.comparable for one in found.hosts] == [True, True, False]
    assert "as if it had been set meanwhile" in found.why_not
    assert not found.between(HOSTS[0], HOSTS[2])
    assert found.between(HOSTS[0], HOSTS[1])


@pytest.mark.broad(4)
@pytest.mark.parametrize("seconds", [7, -7, 86_400, -86_400])
def test_a_job_whose_clock_was_set_meanwhile_reads_the_same(tmp_path: Path, seconds: int) -> None:
    source = SAMPLES / "ddp_gloo_8"
    plain = open_captures([source])
    folder = shifted(source, tmp_path / "x", "h3", seconds, after=1000)
    trace = open_captures([folder])
    assert sentences(analyse(find_job(trace))) == sentences(analyse(find_job(plain)))
    (note,) = (note for note in trace.notes if "10.77.0.4 was" in note)
    assert "between packets 1,000 and 1,001 of those that were read" in note
    assert ("set forward by" if seconds > 0 else "set back by") in note


def test_packets_of_one_way_only_prove_nothing(tmp_path: Path) -> None:
    rng = Random(3)
    base_ns = {(a, b): 100_000 for a in range(3) for b in range(3) if a != b}
    captures, _ = talk(tmp_path, (Clock(),) * 3, rng, base_ns, silent=frozenset({(2, 0), (2, 1)}))
    found = compared(captures)[1]
    assert [one.comparable for one in found.hosts] == [True, True, False]
    assert "no packets of both ways" in found.why_not


@pytest.mark.parametrize("received", [True, False])
def test_two_hosts_alone_whose_files_do_not_show_whose_they_are(tmp_path: Path, received: bool) -> None:
    rng = Random(4)
    base_ns = {(a, b): 100_000 + 300_000 * a for a in range(3) for b in range(3) if a != b}
    others = frozenset({(0, 2), (2, 0), (1, 2), (2, 1)})
    clocks = (Clock(), Clock(7 * 10**9), Clock())
    captures, times = talk(tmp_path, clocks, rng, base_ns, received=received, silent=others)
    moved, found = compared(captures)
    (bad,) = (one for one in found.hosts if one.corrected)
    assert found.comparable
    apart = {
        host: packets.time_ns - np.array(true) for host, packets, true in zip("ab", moved, times, strict=True)
    }
    assert np.abs(apart["a"].mean() - apart["b"].mean()) <= bad.uncertainty_ns


def shifted(source: Path, folder: Path, host: str, seconds: int, after: int = 0) -> Path:
    """The same captures, one host's times moved; the first `after` of its packets are not."""
    folder.mkdir()
    for path in source.glob("*.pcap"):
        data = bytearray(path.read_bytes())
        at, number = 24, 0
        while path.stem == host and at < len(data):
            (then,) = struct.unpack_from("<I", data, at)
            struct.pack_into("<I", data, at, then + seconds * (number >= after))
            number += 1
            at += 16 + int.from_bytes(data[at + 8 : at + 12], "little")
        (folder / path.name).write_bytes(data)
    return folder


@pytest.mark.broad(5)
@pytest.mark.parametrize("seconds", [1, -300, 3600, 86_400, -1_700_000_000])
def test_a_shifted_host_changes_no_sentence_and_is_named(tmp_path: Path, seconds: int) -> None:
    source = SAMPLES / "ddp_gloo_8"
    plain = open_captures([source])
    trace = open_captures([shifted(source, tmp_path / "x", "h3", seconds)])
    assert sentences(analyse(find_job(trace))) == sentences(analyse(find_job(plain)))
    assert [note for note in trace.notes if "10.77.0.4 was" in note and "corrected" in note]
    assert not [note for note in plain.notes if "corrected" in note]
    (bad,) = (one for one in trace.clocks.hosts if one.corrected)
    assert abs(bad.offset_ns - seconds * 10**9) <= bad.uncertainty_ns


def test_what_cannot_be_compared_is_refused_in_words(tmp_path: Path) -> None:
    """Clocks that no packets connect: nobody is blamed, and no rate or delay across hosts is given."""
    trace = open_captures([SAMPLES / "ddp_gloo_8"])
    lone = replace(trace.clocks.hosts[3], group=1, comparable=False, reason="nothing connects it")
    hosts = (*trace.clocks.hosts[:3], lone, *trace.clocks.hosts[4:])
    analysis = analyse(find_job(replace(trace, clocks=replace(trace.clocks, hosts=hosts))))
    assert "who is late are unknown: the clock of 10.77.0.4 cannot" in sentences(analysis)[0]
    assert not any(word in " ".join(sentences(analysis)) for word in ("bus bandwidth", "is the late one"))
    assert not analysis.transfers + analysis.spans + analysis.stragglers + analysis.iterations
    delayed = {(f.src, f.dst) for f in analysis.flows if f.delay_ns is not None}
    assert delayed
    assert not [pair for pair in delayed if lone.host in pair]
    assert json.loads(to_json(analysis))["incomparable"]
