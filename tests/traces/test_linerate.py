"""What was acknowledged of what hosts sent: made packets with known numbers, and stored captures' sums."""

import struct
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from gradwire.traces.analysis.linerate import acknowledged, own_hosts
from gradwire.traces.analysis.spacing import HEADER_NBYTES
from gradwire.traces.framing.messages import collect
from gradwire.traces.reader import open_trace
from gradwire.traces.trace import Trace
from tests.made_captures import ACK, SYN, Record, tcp
from tests.traces.test_flows import trace_of

A, B = ("10.0.0.1", 4000), ("10.0.0.2", 5000)
ACK_AT = 14 + 20 + 8  # in the frame
MS = 1_000_000
SAMPLES = Path(__file__).parents[2] / "traces" / "samples"


def answer(time_ms: float, number: int, flags: int = ACK) -> Record:
    """From B to A, acknowledging everything before byte `number`."""
    frame = bytearray(tcp(B, A, 7, b"", flags))
    struct.pack_into("!I", frame, ACK_AT, number % 2**32)
    return Record(int(time_ms * MS), bytes(frame))


def seen_at(folder: Path, records: list[Record]) -> Trace:
    """Captured at A, which also talks with another host: so it is known whose capture this is."""
    other = ("10.0.0.3", 6000)
    talk = [Record(0, tcp(A, B, 1, b"x")), Record(0, tcp(A, other, 1, b"x")), Record(0, tcp(other, A, 1))]
    return replace(trace_of(folder, [*talk, *records]), messages=collect([], (A[0], B[0])))


def sizes(trace: Trace) -> list[tuple[int, int]]:
    (one,) = acknowledged(trace)
    assert (one.host, one.direction) == (A[0], "out")
    return [(int(t) // MS, int(n) - HEADER_NBYTES) for t, n in zip(one.time_ns, one.nbytes, strict=True)]


@pytest.mark.parametrize("first", [1000, 2**31 - 2000, 2**32 - 2000])
def test_each_byte_counts_once_when_it_is_first_acknowledged(tmp_path: Path, first: int) -> None:
    """Repeats and late ones add nothing; numbers wrap around."""
    steps = [(1, 0), (2, 1448), (3, 1448), (4, 4344), (5, 2896), (6, 5792)]
    trace = seen_at(tmp_path, [answer(ms, first + number) for ms, number in steps])
    assert own_hosts(trace) == {A[0]}
    assert sizes(trace) == [(2, 1448), (4, 2896), (6, 1448)]


def test_a_syns_answer_and_a_number_out_of_any_window_count_for_nothing(tmp_path: Path) -> None:
    some = [
        answer(1, 0, SYN | ACK),
        answer(2, 1),
        answer(3, 1001),
        answer(4, 1001 + (1 << 30)),
        answer(5, 2001),
    ]
    assert sizes(seen_at(tmp_path, some)) == [(3, 1000)]


def test_a_capture_of_many_hosts_has_no_own(tmp_path: Path) -> None:
    c, d = ("10.0.0.3", 6000), ("10.0.0.4", 7000)
    talk = [Record(0, tcp(one, other, 1, b"x")) for one, other in ((A, B), (B, A), (c, d), (d, c))]
    trace = replace(trace_of(tmp_path, talk), messages=collect([], (A[0], B[0], c[0], d[0])))
    assert own_hosts(trace) == frozenset()
    assert acknowledged(trace) == ()


@cache
def sample(name: str) -> Trace:
    return open_trace([SAMPLES / name])


def test_captures_that_lack_the_acknowledgements_have_none() -> None:
    assert acknowledged(sample("ddp_gloo_8_gpt_tso")) == ()


@pytest.mark.parametrize("name", ["slow_ddp_8_mlp_leafspine50M", "ps_1srv_4wk"])
def test_what_a_job_sent_was_acknowledged(name: str) -> None:
    """Of each host all payload of its connections, but for the little that was under way at the end."""
    trace = sample(name)
    sent = dict.fromkeys(trace.addresses, 0)
    for choice in trace.choices:
        for stream in choice.connection.streams:
            if stream.direction.src in sent:
                sent[stream.direction.src] += stream.nbytes
    own = own_hosts(trace)
    found = acknowledged(trace)
    assert {one.host for one in found} == set(own)
    for one in found:
        assert one.host in own
        assert np.all(np.diff(one.time_ns) >= 0)
        got = int((one.nbytes - HEADER_NBYTES).sum())
        assert 0.98 * sent[one.host] <= got <= sent[one.host] + 1000
