"""gRPC as a framing: a parameter server of TensorFlow, and made conversations."""

import subprocess
from collections import Counter
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradwire.traces.framing.frames import UNKNOWN_TAG, Found, Frame, MessageKind
from gradwire.traces.framing.framings import choose
from gradwire.traces.framing.grpc_framing import Grpc
from gradwire.traces.framing.http2 import PREFACE
from gradwire.traces.packets.capture import read_capture
from gradwire.traces.packets.streams import Connection, assemble, connections
from gradwire.traces.reader import open_trace
from tests.made_gloo import conversation as gloo_conversation
from tests.made_http2 import END, Answers, Asks, conversation, data, in_chunks, message
from tests.made_http2 import settings as settings_frame

SAMPLE = Path(__file__).parents[2] / "traces" / "samples" / "tfps_worker" / "h4.pcap.gz"
SERVER, WORKER, ROUNDS = "10.77.0.1", "10.77.0.5", 4
# The MLP has 64 inputs, two hidden layers of 256 and 10 outputs: 85,002 numbers of 4 bytes.
TENSORS = Counter([4 * n for n in (256 * 256, 64 * 256, 256 * 10, 256, 256, 10)])
PULL, PUSH = "/ps.Worker/RecvTensor", "/ps.Worker/Push"


@pytest.fixture(scope="module")
def sample() -> Found:
    found = connections(assemble([read_capture(SAMPLE)]))
    assert [choose(one).framing for one in found] == [choose(found[0]).framing] * 3
    return Grpc().read(found)


def test_a_worker_alone_is_a_part_of_its_job(tmp_path: Path) -> None:
    """Also where a filter left its packets with the server only: then both hosts are in every packet."""
    whole = open_trace([SAMPLE])
    assert [whole.addresses[rank] for rank in whole.seen_from] == [WORKER]
    pair = tmp_path / "pair.pcap"
    chosen = f"ip.addr == {SERVER} && ip.addr == {WORKER}"
    subprocess.run(["tshark", "-r", SAMPLE, "-Y", chosen, "-F", "nsecpcap", "-w", pair], check=True)
    trace = open_trace([pair])
    assert (trace.addresses, trace.seen_from) == ((SERVER, WORKER), ())
    assert any("whether others took part" in note for note in trace.notes)


def frames(found: Found, src: str, dst: str) -> list[Frame]:
    some = [
        one.frames
        for one in found.readings
        if (one.stream.direction.src, one.stream.direction.dst) == (src, dst)
    ]
    return list(chain.from_iterable(some))


@pytest.mark.parametrize(("src", "dst"), [(SERVER, WORKER), (WORKER, SERVER)])
def test_every_round_moves_every_tensor_once_each_way(sample: Found, src: str, dst: str) -> None:
    """Their sizes are the model's; what TensorFlow writes around a tensor is less than 40 bytes."""
    sent = [f for f in frames(sample, src, dst) if f.kind is MessageKind.DATA and f.payload_nbytes != 21]
    assert {f.operation for f in sent} == {"RecvTensor"}
    near = [max(t for t in TENSORS if t <= f.payload_nbytes) for f in sent]
    assert Counter(near) == Counter({size: count * ROUNDS for size, count in TENSORS.items()})
    assert all(f.payload_nbytes - size < 40 for f, size in zip(sent, near, strict=True))


def test_half_of_the_headers_are_not_in_the_sample_but_few_bytes_stay_hidden(sample: Found) -> None:
    data_nbytes = sum(
        f.payload_nbytes for one in sample.readings for f in one.frames if f.kind is MessageKind.DATA
    )
    hidden = sum(h.end - h.start for one in sample.readings for h in one.hidden)
    assert any(f.recovered for one in sample.readings for f in one.frames)
    assert hidden < data_nbytes / 100
    assert any("were found by what their gaps can hold" in note for note in sample.notes)


def test_all_bytes_of_a_stream_are_messages_hidden_or_the_frames_around_them(sample: Found) -> None:
    """What is around one: HEADERS, frame headers, prefix, trailers, WINDOW_UPDATE, PING: under 200 bytes."""
    for one in sample.readings:
        explained_nbytes = sum(f.payload_nbytes for f in one.frames) + sum(
            h.end - h.start for h in one.hidden
        )
        assert explained_nbytes <= one.stream.nbytes
        assert one.stream.nbytes - explained_nbytes < 200 * (len(one.frames) + 8)


def dialogue(path: Path, nbytes: list[int], visible: int = 65_535) -> Connection:
    """Every size is fetched, then pushed; two requests at a time."""
    asks, answers = Asks(), Answers()
    asked, answered = [PREFACE + settings_frame()], [settings_frame()]
    for n, size in enumerate(nbytes):
        pull, push = 4 * n + 1, 4 * n + 3
        asked.append(asks.headers(pull, PULL) + data(pull, message(60), END))
        asked.append(asks.headers(push, PUSH) + in_chunks(push, message(size), 16_384, END))
        answered.append(
            answers.headers(pull) + in_chunks(pull, message(size), 16_384) + answers.trailers(pull)
        )
        answered.append(answers.headers(push) + data(push, message(0)) + answers.trailers(push))
    return conversation(path, asked, answered, visible=visible)


def test_messages_have_the_method_of_their_call_and_direction_of_their_own(tmp_path: Path) -> None:
    found = Grpc().read([dialogue(tmp_path / "a.pcap", [50_000, 100])])
    asked, answered = (
        [(f.operation, f.kind, f.payload_nbytes, f.tag) for f in one.frames] for one in found.readings
    )
    small, large = MessageKind.CONTROL, MessageKind.DATA
    assert asked == [
        ("RecvTensor", small, 60, UNKNOWN_TAG),
        ("Push", large, 50_000, UNKNOWN_TAG),
        ("RecvTensor", small, 60, UNKNOWN_TAG),
        ("Push", small, 100, UNKNOWN_TAG),
    ]
    assert answered == [
        ("RecvTensor", large, 50_000, UNKNOWN_TAG),
        ("Push", small, 0, UNKNOWN_TAG),
        ("RecvTensor", large, 100, UNKNOWN_TAG),  # a tensor however small
        ("Push", small, 0, UNKNOWN_TAG),
    ]
    assert found.notes == ()


@pytest.mark.parametrize("visible", [74, 62])
def test_a_snaplen_changes_no_size_of_data(tmp_path: Path, visible: int) -> None:
    sizes = [50_000, 7_000, 50_000, 30_000]
    whole, cut = (
        Grpc().read([dialogue(tmp_path / "a.pcap", sizes, visible=kept)]) for kept in (65_535, visible)
    )
    for one, other in zip(whole.readings, cut.readings, strict=True):
        large = [
            Counter(f.payload_nbytes for f in some.frames if f.payload_nbytes > 4_096)
            for some in (one, other)
        ]
        assert large[0] == large[1]


def test_fits_say_what_they_are_sure_of(tmp_path: Path) -> None:
    grpc = Grpc()
    fit = grpc.fit(dialogue(tmp_path / "a.pcap", [5_000]))
    assert fit is not None and fit.confidence == 1.0
    assert fit.evidence == "HTTP/2, and 4 messages in it with gRPC's prefix of 5 bytes"
    idle = grpc.fit(conversation(tmp_path / "a.pcap", [PREFACE + settings_frame()], [settings_frame()]))
    assert idle is not None and idle.confidence == 0.9
    page = data(1, b"<html>" * 50, END)
    web = grpc.fit(
        conversation(
            tmp_path / "a.pcap",
            [PREFACE + settings_frame()],
            [settings_frame() + Answers().headers(1) + page],
        )
    )
    assert web is not None and web.confidence < 0.5


def test_gloo_and_text_are_not_taken_for_grpc(tmp_path: Path) -> None:
    from gradwire.traces.framing.gloo import Opcode
    from tests.made_gloo import Sent

    packets = gloo_conversation(tmp_path / "g.pcap", [[Sent(Opcode.DATA, 2, 900)]], [])
    text = conversation(
        tmp_path / "t.pcap", [b"GET / HTTP/1.1\r\n\r\n"], [b"HTTP/1.1 200 OK\r\n\r\n" + bytes(9_999)]
    )
    assert [Grpc().fit(one) for one in (*connections(assemble([packets])), text)] == [None, None]


@given(
    st.lists(st.sampled_from([0, 5, 3_000, 9_000]), min_size=1, max_size=4),
    st.integers(33, 120),
    st.lists(st.tuples(st.integers(0, 10**4), st.integers(0, 255)), max_size=4),
)
def test_whatever_is_hidden_or_wrong_nothing_breaks(
    sizes: list[int], visible: int, wrong: list[tuple[int, int]]
) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "a.pcap"
        dialogue(path, sizes, visible)
        raw = bytearray(path.read_bytes())
        for place, byte in wrong:
            at = 24 + place % (len(raw) - 24)
            record_head = any(at in range(start, start + 16) for start in records(bytes(raw)))
            raw[at] = raw[at] if record_head else byte
        path.write_bytes(raw)
        for one in connections(assemble([read_capture(path)])):
            if Grpc().fit(one) is not None:
                found = Grpc().read([one])
                assert all(f.nbytes >= 0 and f.payload_nbytes >= 0 for r in found.readings for f in r.frames)


def records(raw: bytes) -> list[int]:
    at, starts = 24, []
    while at < len(raw):
        starts.append(at)
        at += 16 + int.from_bytes(raw[at + 8 : at + 12], "little")
    return starts
