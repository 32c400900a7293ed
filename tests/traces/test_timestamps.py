"""A time that cannot be right costs its packet, which is named; times that can be right cost nothing."""

import struct
from pathlib import Path
from random import Random

import numpy as np
import pytest

from gradwire.traces.packets.timestamps import implausible
from gradwire.traces.reader import open_trace
from gradwire.traces.recognition.recognise import recognise
from tests.made_captures import split_pcap

SAMPLE = Path(__file__).parents[2] / "traces" / "samples" / "ddp_gloo_8"
SECOND = 10**9


def even(count: int = 1000) -> np.ndarray:
    """A packet each 10 ms from 2023 on."""
    return 1_700_000_000 * SECOND + np.arange(count, dtype=np.int64) * 10_000_000


@pytest.mark.parametrize("row", [1, 100, 500, 800])
def test_each_bit_of_the_seconds_is_noticed(row: int) -> None:
    for bit in range(32):
        times = even()
        times[row] = (int(times[row]) // SECOND ^ 1 << bit) * SECOND + int(times[row]) % SECOND
        assert implausible(times).tolist() == [row], f"bit {bit}"


@pytest.mark.parametrize("years", [-50, -12, 12, 60])
@pytest.mark.parametrize("row", [0, 999])
def test_the_first_and_the_last_packet_are_noticed_by_a_long_silence(years: int, row: int) -> None:
    times = even()
    times[row] += years * 365 * 86_400 * SECOND
    assert implausible(times).tolist() == [row]


def test_many_wrong_times_are_all_found() -> None:
    rng = Random(5)
    times = even(4000)
    rows = sorted(rng.sample(range(1, 3990), 200))
    for row in rows:
        times[row] += rng.choice([-1, 1]) * rng.randrange(3600, 40 * 365 * 86_400) * SECOND
    assert implausible(times).tolist() == rows


def test_times_that_differ_more_than_64_bits_hold_are_no_error() -> None:
    times = even()
    times[10], times[20] = np.iinfo(np.int64).max, np.iinfo(np.int64).min
    assert implausible(times).tolist() == [10, 20]


@pytest.mark.parametrize(
    "times",
    [
        even(),
        np.concatenate([even(), even() + 1800 * SECOND]),  # a pause
        np.concatenate([even(), even() + 7200 * SECOND]),  # two runs, hours apart
        np.concatenate([even(), even() - 5 * SECOND]),  # a clock that was set back
        np.concatenate([even(), even() + 53 * 365 * 86_400 * SECOND]),  # and forth, from 1970
        even() + np.tile([0, 20_000_000, -20_000_000, 0], 250),  # written by several processors
        even(2) * np.array([1, 0]),
        even(0),
    ],
)
def test_times_that_can_be_right_are_kept(times: np.ndarray) -> None:
    assert not len(implausible(times))


@pytest.mark.broad(8)
@pytest.mark.parametrize("bit", [0, 3, 11, 16, 24, 26, 29, 31])
def test_a_job_with_one_flipped_bit_is_read_and_the_packet_named(tmp_path: Path, bit: int) -> None:
    for path in SAMPLE.glob("*.pcap"):
        data = bytearray(path.read_bytes())
        if path.name == "h3.pcap":
            records = split_pcap(bytes(data))
            at = 24 + sum(map(len, records[:1234]))
            (seconds,) = struct.unpack_from("<I", data, at)
            struct.pack_into("<I", data, at, seconds ^ 1 << bit)
        (tmp_path / path.name).write_bytes(data)
    trace = open_trace([tmp_path])
    (note,) = (note for note in trace.notes if "cannot be right" in note)
    assert "h3.pcap: packet 1,235 (at byte " in note
    assert f"(at byte {at + 16:,})" in note
    assert [file.mistimed for file in trace.files].count(1) == 1
    assert len(recognise(trace).items) == len(recognise(open_trace([SAMPLE])).items)
