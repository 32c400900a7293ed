"""What an injection came to, and when it may not be believed."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gradwire.emu.inject.counts import InjectionCounts
from gradwire.emu.inject.figures import NEVER, PacketTimes, TimePercentiles
from gradwire.emu.inject.injection import check_queues
from gradwire.emu.inject.options import AS_RECORDED, TOPSPEED, InjectOptions, Pace
from gradwire.emu.inject.preparation import Prepared, prepare
from gradwire.emu.inject.result import Injection, judge, result
from gradwire.emu.inject.times import Fields, ReadTimes, keys, read_times
from gradwire.planning.fabrics.spec import parse_fabric
from tests.made_captures import Record, pcap, tcp

A, B = ("10.77.0.1", 4000), ("10.77.0.2", 5000)
N = 200
QUIET = InjectionCounts(cpu_idle=0.5, softnet_dropped=0, queue_dropped={})


def prepared(folder: Path, fabric: str = "star:hosts=2", nbytes: int = 100) -> Prepared:
    records = [Record(n * 10**6, tcp(A, B, n * nbytes, bytes(nbytes))) for n in range(N)]
    path = folder / "made.pcap"
    path.write_bytes(pcap(records))
    return prepare([path], parse_fabric(fabric), InjectOptions(), {}, {})


def observed_times(late_ns: int = 1000, stray: int = 0, clock_set_ns: int = 0) -> ReadTimes:
    due = np.arange(N) * 10**6
    times = PacketTimes(due, due + late_ns, due + late_ns + 500, due + late_ns + 5500)
    return ReadTimes(times, stray, clock_set_ns)


def injection_of(
    folder: Path, observed: ReadTimes, counted: InjectionCounts = QUIET, pace: Pace = AS_RECORDED
) -> Injection:
    return result("made", InjectOptions(pace=pace), prepared(folder), observed, counted)


def without(observed: ReadTimes, *rows: int) -> ReadTimes:
    arrived = observed.times.arrived_ns.copy()
    arrived[list(rows)] = NEVER
    return replace(observed, times=replace(observed.times, arrived_ns=arrived))


def test_figures_are_those_of_the_packets(tmp_path: Path) -> None:
    found = injection_of(tmp_path, observed_times())
    assert (found.packets, found.sent, found.arrived, found.lost, found.reordered) == (N, N, N, 0, 0)
    assert found.bytes == N * (54 + 100)
    assert found.planned_s == pytest.approx((N - 1) * 1e-3)
    assert found.delay_s == TimePercentiles(5e-6, 5e-6, 5e-6, 5e-6, 5e-6)
    assert found.lateness_histogram["<=1e-05"] == N
    assert found.drift_ppm == 0
    assert found.verdict == "valid"
    (flow,) = found.flows
    assert (flow.src, flow.sport, flow.dst, flow.dport, flow.sent) == ("h0", 4000, "h1", 5000, N)


@pytest.mark.parametrize(
    ("observed", "counted", "reason"),
    [
        (observed_times(late_ns=1_100_000), {}, "handed over 1.1 ms late"),
        (observed_times(), {"capture_dropped": {"h0": 2, "h1": 1}}, "captures lost 3 packets"),
        (observed_times(), {"softnet_dropped": 4}, "receive queues dropped 4"),
        (observed_times(), {"cpu_idle": 0.01}, "CPU idle 1%"),
        (observed_times(clock_set_ns=-5_000_000), {}, "clock was set by -5 ms"),
        (
            without(observed_times(), 3, 4),
            {"queue_dropped": {"switch0-eth2": 1}},
            "packets lost outside the fabric's queues: 1",
        ),
    ],
)
def test_what_the_machine_did_makes_it_not_valid(
    observed: ReadTimes, counted: Mapping[str, Any], reason: str, tmp_path: Path
) -> None:
    found = injection_of(tmp_path, observed, replace(QUIET, **counted))
    assert found.verdict == "not valid"
    assert any(reason in text for text in found.reasons)


def test_what_the_fabrics_queues_dropped_is_a_result(tmp_path: Path) -> None:
    found = injection_of(
        tmp_path, without(observed_times(), 3, 4), replace(QUIET, queue_dropped={"switch0-eth2": 2})
    )
    assert (found.verdict, found.lost, found.flows[0].lost) == ("valid", 2, 2)


def test_at_top_speed_nothing_is_late_and_a_busy_machine_is_expected(tmp_path: Path) -> None:
    found = injection_of(
        tmp_path, observed_times(late_ns=10**9), replace(QUIET, cpu_idle=0.0), Pace(TOPSPEED)
    )
    assert (found.verdict, found.lateness_s, found.drift_ppm) == ("valid", None, None)
    assert found.warnings == ("CPU idle 0%",)


def test_packets_that_came_twice_are_told() -> None:
    reasons, warnings = judge(None, None, observed_times(stray=2), QUIET)
    assert (reasons, len(warnings)) == ((), 1)


@pytest.mark.parametrize(("nbytes", "is_refused"), [(1000, False), (20_000, True)])
def test_a_queue_that_no_segment_would_ever_pass_is_refused(
    nbytes: int, is_refused: bool, tmp_path: Path
) -> None:
    found = prepared(tmp_path, "star:hosts=2,queue=10KB", nbytes)
    if is_refused:
        with pytest.raises(ValueError, match=r"10000 bytes has no room for .* --exact-mtu"):
            check_queues(found)
    else:
        check_queues(found)


def test_times_are_read_from_what_the_sender_and_the_ports_wrote(tmp_path: Path) -> None:
    """Two loops; the ports' captures are made by hand: the fourth packet of the first loop is lost."""
    found = prepared(tmp_path)
    h0, h1 = (found.fabric.ip("h0"), A[1]), (found.fabric.ip("h1"), B[1])
    left = [(loop * 10**9 + n * 10**6, n) for loop in range(2) for n in range(N)]
    sent = [Record(10**12 + time_ns + 700, tcp(h0, h1, n * 100, bytes(100))) for time_ns, n in left]
    came = [Record(record.time_ns + 4000, record.frame) for record in sent]
    del came[7], came[3], sent[7]  # one was refused by the port, so it is nowhere; one is lost
    folder = tmp_path / "captures"
    folder.mkdir()
    (folder / "h0.pcap").write_bytes(pcap(sent, snaplen=128))
    (folder / "h1.pcap").write_bytes(pcap(came, snaplen=128))
    handed = np.array([time_ns + 500 for time_ns, _ in left])
    handed[7] = NEVER
    np.savez(tmp_path / "sent.npz", handed_ns=handed, clocks=np.array([0, 10**12, 0]))
    observed = read_times(tmp_path, replace(found, period_ns=10**9), loops=2)
    due = np.array([10**12 + time_ns for time_ns, _ in left])
    assert observed.times.due_ns.tolist() == due.tolist()
    there = np.ones(2 * N, bool)
    there[7] = False
    assert observed.times.handed_ns[there].tolist() == (due + 500)[there].tolist()
    assert observed.times.arrived_ns[3] == NEVER
    assert (observed.times.left_ns - due)[there].tolist() == [700] * (2 * N - 1)
    there[3] = False
    assert (observed.times.arrived_ns - due)[there].tolist() == [4700] * (2 * N - 2)


def test_keys_of_what_is_sent_are_those_of_what_a_port_sees(tmp_path: Path) -> None:
    pieces = prepared(tmp_path).pieces
    fields = Fields(*(getattr(pieces, name) for name in Fields._fields))
    assert len(np.unique(keys(pieces.src, pieces.dst, fields))) == N
