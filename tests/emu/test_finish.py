"""What `capture` leaves: trimmed captures that, with their indexes, are read as the whole packets were."""

import gzip
import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gradwire.emu.capturing import finish
from gradwire.emu.capturing.request import MIRRORED, WHOLE
from gradwire.traces.framing.gloo import Opcode
from gradwire.traces.framing.http2 import PREFACE
from gradwire.traces.framing.messages import COLUMNS
from gradwire.traces.indexfiles import index_path
from gradwire.traces.packets.packets import NOT_KNOWN
from gradwire.traces.packets.reads import Recorded
from gradwire.traces.reader import SETTINGS, open_captures
from gradwire.traces.trace import Trace
from tests import made_gloo, made_http2, made_mpi
from tests.made_captures import pcap
from tests.made_gloo import Sent

Job = Callable[[Path, int], object]  # writes a capture, this many bytes of each packet's payload in it
WHOLLY = 65_535
H0 = {"h0": "10.0.0.1"}
SIZES = (4_000, 40_000, 9)


def gloo(path: Path, visible: int) -> None:
    """Three payloads and their notices in one segment each way: only the first preamble starts a packet."""
    data = [[Sent(Opcode.DATA, 100 + i, n) for i, n in enumerate(SIZES)]] * 2
    ready = [[Sent(Opcode.RECV_READY, 100 + i, n) for i, n in enumerate(SIZES)]] * 2
    made_gloo.conversation(path, [[*ready[0], *data[0]]], [[*ready[0], *data[0]], data[1]], visible=visible)


def mpi(path: Path, visible: int) -> None:
    forth = b"".join(made_mpi.match(made_mpi.ALLREDUCE, b"x" * n, seq=i + 1) for i, n in enumerate(SIZES))
    back = b"".join(
        made_mpi.match(made_mpi.ALLREDUCE, b"y" * n, seq=i + 1, src=1) for i, n in enumerate(SIZES)
    )
    made_mpi.talk(path, [(10, forth), (30, forth)], [(20, back), (40, back)], visible=visible)


def grpc(path: Path, visible: int) -> None:
    asks, answers = made_http2.Asks(huffman=True), made_http2.Answers()
    asked, answered = [], []
    for number, nbytes in enumerate(SIZES):
        call = 2 * number + 1
        asked.append(asks.headers(call, "/tensorflow.WorkerService/RecvTensor"))
        asked.append(made_http2.in_chunks(call, made_http2.message(nbytes), 16_384, made_http2.END))
        answered.append(
            answers.headers(call) + made_http2.in_chunks(call, made_http2.message(nbytes), 16_384)
        )
        answered.append(answers.trailers(call))
    both = [PREFACE + made_http2.settings() + b"".join(asked)]
    made_http2.conversation(
        path, both, [made_http2.settings() + b"".join(answered)], visible=visible, segment=1 << 15
    )


JOBS: dict[str, Job] = {"gloo": gloo, "mpi": mpi, "grpc": grpc}


def folder_of(path: Path, job: Job, visible: int = 62) -> Path:
    (path / WHOLE).mkdir(parents=True, exist_ok=True)
    (path / SETTINGS).write_text("{}")
    job(path / WHOLE / "h0.pcap", WHOLLY)
    job(path / "h0.pcap", visible)
    return path


def read_whole(folder: Path) -> Trace:
    whole = finish.read_whole(folder)
    assert isinstance(whole, Trace), whole
    return whole


def assert_same(one: Trace, two: Trace) -> None:
    assert one.framing == two.framing
    assert one.addresses == two.addresses
    assert one.messages.operations == two.messages.operations
    for name in COLUMNS:
        assert np.array_equal(getattr(one.messages, name), getattr(two.messages, name)), name
    assert one.losses == two.losses


@pytest.mark.parametrize("name", JOBS)
@pytest.mark.parametrize("visible", [0, 9, 62])
def test_trimmed_packets_and_their_index_are_read_as_the_whole_ones(
    tmp_path: Path, name: str, visible: int
) -> None:
    folder = folder_of(tmp_path, JOBS[name], visible)
    whole = read_whole(folder)
    assert whole.framing == name
    assert not whole.losses.unresolved
    without = open_captures([folder])
    check, _ = finish.indexed(whole, folder, H0)
    assert (check.agrees, check.differences) == (True, ())
    assert check.n_compared == len(whole.messages) >= 2 * len(SIZES)
    for again in (open_captures([folder]), open_captures([folder / "h0.pcap"])):
        assert_same(whole, again)
        assert not any("not used" in note for note in again.notes)
    assert without.losses != whole.losses or len(without.messages) != len(whole.messages)


@pytest.mark.long
@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data(), visible=st.integers(0, 70))
def test_however_gloos_messages_share_packets_the_index_holds_what_the_cut_hides(
    tmp_path: Path, data: st.DataObject, visible: int
) -> None:
    message = st.builds(
        Sent, st.sampled_from(list(Opcode)), st.integers(0, 5).map(lambda n: 256 * n), st.integers(1, 300)
    )
    groups = st.lists(st.lists(message, min_size=1, max_size=4), min_size=1, max_size=5)
    first = [Sent(Opcode.DATA, 256, 100)]
    down, up = [first, *data.draw(groups)], [first, *data.draw(groups)]
    (tmp_path / "h0.messages").unlink(missing_ok=True)

    def job(path: Path, shown: int) -> None:
        made_gloo.conversation(path, down, up, visible=shown)

    folder = folder_of(tmp_path, job, visible)
    whole = read_whole(folder)
    assert len(whole.messages) == sum(map(len, down)) + sum(map(len, up))
    assert finish.indexed(whole, folder, H0)[0].agrees
    assert_same(whole, open_captures([folder]))


def test_how_long_packets_queued_is_in_the_index_too(tmp_path: Path) -> None:
    """Here the capture from before the queue is of the port itself, so nothing queued."""
    folder = folder_of(tmp_path, gloo, WHOLLY)
    (folder / MIRRORED).mkdir()
    shutil.copy(folder / "h0.pcap", folder / MIRRORED)
    whole = read_whole(folder)
    check, undated = finish.indexed(whole, folder, H0)
    assert (check.agrees, undated) == (True, {"h0": 0})
    for trace in (whole, open_captures([folder])):
        (packets,) = trace.captures
        assert packets.queued_ns is not None
        has_data = packets.payload_nbytes > 0
        assert (packets.queued_ns[has_data] == 0).all()
        assert (packets.queued_ns[~has_data] == NOT_KNOWN).all()


@pytest.mark.parametrize("mirrored", [b"", pcap([])])
def test_without_a_capture_from_before_the_queue_it_is_said_of_how_many_packets_it_is_not_known(
    tmp_path: Path, mirrored: bytes
) -> None:
    folder = folder_of(tmp_path, gloo, WHOLLY)
    (folder / MIRRORED).mkdir()
    (folder / MIRRORED / "h0.pcap").write_bytes(mirrored)
    check, undated = finish.indexed(read_whole(folder), folder, H0)
    (packets,) = open_captures([folder]).captures
    assert packets.queued_ns is None
    own = packets.addresses.index(H0["h0"])
    n_sent = int(np.count_nonzero((packets.payload_nbytes > 0) & (packets.src == own)))
    assert (check.agrees, check.why, undated) == (True, "", {"h0": n_sent})


def test_an_index_has_so_many_delays_and_no_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = folder_of(tmp_path, gloo, WHOLLY)
    (folder / MIRRORED).mkdir()
    shutil.copy(folder / "h0.pcap", folder / MIRRORED)
    monkeypatch.setattr(finish, "MAX_DELAYS", 2)
    check, _ = finish.indexed(read_whole(folder), folder, H0)
    assert check.agrees
    (packets,) = open_captures([folder]).captures
    assert packets.queued_ns is not None
    assert np.count_nonzero(packets.queued_ns != NOT_KNOWN) == 2


def test_what_hides_nothing_has_no_index(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, gloo, WHOLLY)
    assert finish.indexed(read_whole(folder), folder, H0)[0].agrees
    assert not (folder / "h0.messages").exists()


def test_an_index_that_lacks_something_fails_the_check(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = folder_of(tmp_path, gloo, 20)
    whole = read_whole(folder)
    monkeypatch.setattr(Recorded, "were_read", lambda self: (np.empty(0, np.int64), np.empty(0, np.int64)))
    check, _ = finish.indexed(whole, folder, H0)
    assert check.agrees is False
    assert check.differences


def test_captures_that_cannot_be_read_are_not_compared_and_say_why(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, gloo)
    (folder / WHOLE / "h0.pcap").write_bytes(b"")
    whole = finish.read_whole(folder)
    assert isinstance(whole, str)
    check, _ = finish.indexed(whole, folder, H0)
    assert check.agrees is None
    assert "h0.pcap" in check.why


def indexed(folder: Path) -> Path:
    folder = folder_of(folder, gloo, 20)
    assert finish.indexed(read_whole(folder), folder, H0)[0].agrees
    return folder


def manifest_of(folder: Path, sha256: str) -> None:
    host = {"file": "h0.pcap", "index": "h0.messages", "index_sha256": sha256}
    (folder / "manifest.json").write_text(json.dumps({"hosts": [host]}))


def test_an_index_that_its_manifest_names_is_used(tmp_path: Path) -> None:
    folder = indexed(tmp_path)
    manifest_of(folder, hashlib.sha256((folder / "h0.messages").read_bytes()).hexdigest())
    assert_same(read_whole(folder), open_captures([folder]))


def test_an_index_of_a_compressed_capture_is_used(tmp_path: Path) -> None:
    folder = indexed(tmp_path)
    (folder / "h0.pcap.gz").write_bytes(gzip.compress((folder / "h0.pcap").read_bytes()))
    (folder / "h0.pcap").unlink()
    assert_same(read_whole(folder), open_captures([folder]))


def _other_hash(folder: Path) -> None:
    manifest_of(folder, "0" * 64)


def _absent(folder: Path) -> None:
    manifest_of(folder, "0" * 64)
    (folder / "h0.messages").unlink()


def _others(folder: Path) -> None:
    capture = folder / "h0.pcap"
    capture.write_bytes(capture.read_bytes() + capture.read_bytes()[24:])


def _damaged(folder: Path) -> None:
    index = folder / "h0.messages"
    octets = index.read_bytes()
    index.write_bytes(octets[:-1] + bytes([octets[-1] ^ 1]))


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (_other_hash, "its hash is not the one in manifest.json"),
        (_absent, "manifest.json names it, but it is missing"),
        (_others, "made for another file, or h0.pcap has changed since"),
        (_damaged, "contents do not match the hash in its first line"),
    ],
)
def test_an_index_that_cannot_be_trusted_is_left_aside_with_a_note(
    tmp_path: Path, spoil: Callable[[Path], None], said: str
) -> None:
    folder = indexed(tmp_path)
    spoil(folder)
    found = open_captures([folder])
    [note] = [note for note in found.notes if "h0.messages" in note]
    assert said in note
    (folder / "manifest.json").unlink(missing_ok=True)
    (folder / "h0.messages").unlink(missing_ok=True)
    bare = open_captures([folder])
    for name in COLUMNS:
        assert np.array_equal(getattr(bare.messages, name), getattr(found.messages, name))


@pytest.mark.parametrize("text", ["", "[]", "{}", "[" * 50_000, '{"hosts": [3]}', "\0"])
def test_a_manifest_of_something_else_does_not_matter(tmp_path: Path, text: str) -> None:
    folder = indexed(tmp_path)
    (folder / "manifest.json").write_text(text)
    assert_same(read_whole(folder), open_captures([folder]))


@pytest.mark.parametrize(
    ("capture", "index"),
    [
        ("h0.pcap", "h0.messages"),
        ("h0.pcap.gz", "h0.messages"),
        ("a.b.pcapng.zst", "a.b.messages"),
        ("h0", None),
        (".pcap", None),
    ],
)
def test_where_a_captures_index_is(capture: str, index: str | None) -> None:
    assert index_path(Path("x") / capture) == (Path("x") / index if index else None)
