"""Opening captures: any format by its first bytes, compressed or not, whole or in blocks, within bounds."""

import gzip
import shutil
import struct
import subprocess
import sys
import threading
from dataclasses import fields
from os import mkfifo
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from gradwire.traces import reader
from gradwire.traces.packets import capture
from gradwire.traces.packets import capture as reading
from gradwire.traces.packets.addresses import Addresses
from gradwire.traces.packets.capture import packet_blocks, read_capture
from gradwire.traces.packets.columns import ROW_NBYTES, Headers, Records
from gradwire.traces.packets.packets import BadCapture, Packets
from gradwire.traces.reader import is_sure_to_fit
from tests import made_pcapng as ng
from tests.documented import documented_fields
from tests.made_captures import Record, pcap, tcp
from tests.tshark import ours, tshark_says

ROOT = Path(__file__).parents[2]
SAMPLES = ROOT / "traces" / "samples"
A, B = ("10.0.0.1", 4000), ("10.0.0.2", 5000)
FRAMES = [tcp(A, B, 100 * i, b"x" * i) for i in range(20)]
PLAIN = pcap([Record(i * 1000, frame) for i, frame in enumerate(FRAMES)])
NEXT = b"".join([ng.section(), ng.interface(), *(ng.packet(i, frame) for i, frame in enumerate(FRAMES))])


def zstd(data: bytes) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(data)
    return bytes(sink.getvalue())


def written(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


def same(one: Packets, two: Packets) -> bool:
    names = [*Records._fields, *Headers._fields]
    return all(np.array_equal(getattr(one, name), getattr(two, name)) for name in names)


@pytest.mark.broad(4)
@pytest.mark.skipif(not shutil.which("tshark"), reason="tshark is not installed")
@pytest.mark.parametrize(
    "sample",
    [
        "ddp_gloo_8/h4.pcap",
        "ddp_gloo_8_gpt_tso/h5.pcap",
        "ddp_gloo_4_resnet18_tso/h2.pcap",
        "ps_1srv_4wk/h2.pcap",
    ],
)
def test_every_field_of_every_packet_of_a_sample_is_what_tshark_says(sample: str) -> None:
    packets = read_capture(SAMPLES / sample)
    assert ours(packets) == tshark_says(packets.path)


@pytest.mark.parametrize("data", [PLAIN, NEXT], ids=["pcap", "pcapng"])
@pytest.mark.parametrize("packed", [gzip.compress, zstd], ids=["gzip", "zstd"])
def test_a_compressed_file_is_read_whatever_its_name(tmp_path: Path, data: bytes, packed: object) -> None:
    plain = read_capture(written(tmp_path / "a.pcap", data))
    path = written(tmp_path / "b.cap", packed(data))  # type: ignore[operator]
    assert same(read_capture(path), plain)
    assert not read_capture(path).truncated
    twice = written(tmp_path / "c.gz", packed(data[:300]) + packed(data[300:]))  # type: ignore[operator]
    assert same(read_capture(twice), plain)


@pytest.mark.parametrize("packed", [gzip.compress, zstd], ids=["gzip", "zstd"])
@pytest.mark.parametrize("spoil", ["cut", "flipped"])
def test_a_broken_compressed_file_gives_what_comes_before(tmp_path: Path, packed: object, spoil: str) -> None:
    records = [Record(i, np.random.default_rng(i).bytes(1000)) for i in range(2000)]
    whole = bytearray(packed(pcap(records)))  # type: ignore[operator]
    middle = len(whole) // 2
    if spoil == "cut":
        del whole[middle:]
    else:
        whole[middle : middle + 40] = b"\xff" * 40
    packets = read_capture(written(tmp_path / "a.pcap.gz", bytes(whole)))
    assert packets.truncated
    if spoil == "cut":
        assert 800 < len(packets) < 1000
        assert "broken or cut off" in packets.fault
    (*_, last) = packet_blocks(packets.path, piece_nbytes=50_000)
    assert last.fault


@pytest.mark.parametrize("packed", [bytes, gzip.compress, zstd], ids=["plain", "gzip", "zstd"])
@pytest.mark.parametrize("piece_nbytes", [1, 61, 1000, 1 << 20])
@pytest.mark.parametrize("data", [PLAIN, NEXT, PLAIN[:-7], NEXT[:-7]], ids=["pcap", "ng", "pcap-", "ng-"])
def test_blocks_joined_are_the_whole_file(
    tmp_path: Path, data: bytes, packed: object, piece_nbytes: int
) -> None:
    path = written(tmp_path / "a", packed(data))  # type: ignore[operator]
    whole, blocks = read_capture(path), list(packet_blocks(path, piece_nbytes))
    for name in (*Records._fields, *Headers._fields):
        if name not in ("frame_at", "payload_at"):  # these are places in each block's own data
            joined = np.concatenate([getattr(block, name) for block in blocks])
            assert np.array_equal(joined, getattr(whole, name)), name
    assert blocks[-1].addresses == whole.addresses
    assert blocks[-1].fault == whole.fault
    assert not any(block.truncated for block in blocks[:-1])
    seen = b"".join(
        block.data[at : at + n].tobytes()
        for block in blocks
        for at, n in zip(block.payload_at.tolist(), block.visible_nbytes.tolist(), strict=True)
    )
    assert seen == b"".join(b"x" * i for i in range(len(whole)))


def test_a_block_that_is_not_known_may_be_longer_than_a_piece(tmp_path: Path) -> None:
    long = ng.block(0x0BAD, b"\0" * 100_000)
    data = ng.section() + ng.interface() + ng.packet(1, FRAMES[3]) + long + ng.packet(2, FRAMES[4])
    blocks = list(packet_blocks(written(tmp_path / "a", data), 1000))
    assert [time for block in blocks for time in block.time_ns.tolist()] == [1000, 2000]
    assert not blocks[-1].truncated


def test_a_pipe_is_read(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    mkfifo(path)
    writer = threading.Thread(target=path.write_bytes, args=(PLAIN,))
    writer.start()
    packets = read_capture(path)
    writer.join()
    assert len(packets) == len(FRAMES)


def test_more_walks_than_one_join_to_all_packets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (
        "gradwire.traces.packets.pcap",
        "gradwire.traces.packets.pcapng",
        "gradwire.traces.packets.capture",
    ):
        monkeypatch.setattr(sys.modules[module], "ROWS_PER_WALK", 5)
    for data in (PLAIN, NEXT):
        path = written(tmp_path / "a", data)
        assert read_capture(path).time_ns.tolist() == [i * 1000 for i in range(20)]
        assert [len(block) for block in packet_blocks(path)] == [5] * 4


@pytest.mark.parametrize("packed", [bytes, gzip.compress], ids=["plain", "gzip"])
def test_what_does_not_fit_is_refused_with_a_way_out(tmp_path: Path, packed: object) -> None:
    path = written(tmp_path / "a.pcap", packed(PLAIN))  # type: ignore[operator]
    assert len(read_capture(path, budget_nbytes=len(PLAIN) + 20 * ROW_NBYTES)) == 20
    with pytest.raises(BadCapture, match="editcap -c") as caught:
        read_capture(path, budget_nbytes=19 * ROW_NBYTES)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("packed", [bytes, gzip.compress, zstd], ids=["plain", "gzip", "zstd"])
@pytest.mark.parametrize("n_zeros", [16, 5000])
def test_zeros_in_the_place_of_packets_end_a_file(tmp_path: Path, packed: object, n_zeros: int) -> None:
    path = written(tmp_path / "a.pcap", packed(PLAIN + bytes(n_zeros)))  # type: ignore[operator]
    packets = read_capture(path)
    assert len(packets) == 20
    assert packets.fault == f"at byte {len(PLAIN):,}: zeros, and no packet"
    (*_, last) = packet_blocks(path, 1000)
    assert last.fault == packets.fault


def test_a_packet_without_bytes_is_one_where_it_has_a_time(tmp_path: Path) -> None:
    assert len(read_capture(written(tmp_path / "a.pcap", pcap([Record(5, b""), Record(6, FRAMES[3])])))) == 2


def test_a_bomb_is_refused_before_it_fills_the_memory(tmp_path: Path) -> None:
    record = struct.pack("<IIII", 1, 0, 0, 0)
    bomb = gzip.compress(PLAIN[:24] + record * (1 << 20), 1)
    with pytest.raises(BadCapture, match="memory"):
        read_capture(written(tmp_path / "a.pcap.gz", bomb), budget_nbytes=1 << 22)
    zeros = gzip.compress(PLAIN[:24], 1) + gzip.compress(bytes(1 << 24), 1) * 8  # 128 MiB
    with pytest.raises(BadCapture, match="zeros, and no packet"):
        read_capture(written(tmp_path / "b.pcap.gz", zeros), budget_nbytes=1 << 26)
    with pytest.raises(BadCapture, match="not a pcap"):
        read_capture(written(tmp_path / "a.pcap.gz", gzip.compress(b"\0" * (1 << 24), 1)))


def test_files_are_sure_to_fit_if_their_length_is_known_and_small(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = [written(tmp_path / name, data) for name, data in (("a", PLAIN), ("b", NEXT))]
    assert is_sure_to_fit(files)
    assert not is_sure_to_fit([*files, written(tmp_path / "c.pcap", gzip.compress(PLAIN))])
    mkfifo(tmp_path / "d")
    assert not is_sure_to_fit([*files, tmp_path / "d"])
    assert not is_sure_to_fit([*files, tmp_path / "missing"])
    # A packet's header is 16 bytes, and none of its own need follow.
    monkeypatch.setattr(reader, "free_nbytes", lambda: 2 * len(PLAIN + NEXT) // 16 * ROW_NBYTES - 100)
    assert is_sure_to_fit(files[:1])
    assert not is_sure_to_fit(files)


def test_more_addresses_than_a_job_can_have_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def few() -> Addresses:
        made = Addresses()
        table = made.table._replace(low=made.table.low[:30], slots=made.table.slots[:64])
        made.table = table
        return made

    monkeypatch.setattr(reading, "Addresses", few)
    frames = [tcp((f"10.0.1.{i}", 1), (f"10.0.2.{i}", 2), 0) for i in range(15)]
    path = written(tmp_path / "a.pcap", pcap([Record(0, frame) for frame in frames]))
    assert len(read_capture(path).addresses) == 30
    path.write_bytes(path.read_bytes() + pcap([Record(0, tcp(("1.2.3.4", 1), B, 0))])[24:])
    with pytest.raises(BadCapture, match="addresses"):
        read_capture(path)


def test_65000_connections_of_as_many_addresses_are_read(tmp_path: Path) -> None:
    frame = bytearray(tcp(A, B, 1))
    records = []
    for i in range(65_000):
        struct.pack_into("!I", frame, 26, 0x0B000000 + i)
        struct.pack_into("!H", frame, 34, i)
        records.append(Record(i, bytes(frame)))
    packets = read_capture(written(tmp_path / "a.pcap", pcap(records)))
    assert len(packets.addresses) == 65_001
    assert [packets.addresses[i] for i in packets.src[[0, 256, 64_999]]] == [
        "11.0.0.0",
        "11.0.1.0",
        "11.0.253.231",
    ]
    assert packets.sport.tolist() == list(range(65_000))


def test_every_column_is_documented() -> None:
    assert documented_fields("Packets") == {field.name for field in fields(Packets)}


def test_a_clock_that_goes_backwards_is_kept_as_it_is(tmp_path: Path) -> None:
    records = [Record(time_ns, FRAMES[1]) for time_ns in (5000, 3000, 4000)]
    packets = read_capture(written(tmp_path / "a.pcap", pcap(records)))
    assert packets.time_ns.tolist() == [5000, 3000, 4000]


@pytest.mark.parametrize("name", ["a.pcap", "b.pcapng", "c.cap", "d.pcap.gz", "e.pcapng.zst", "f.cap.zst"])
def test_every_name_that_captures_have_is_taken_from_folders(name: str) -> None:
    assert name.endswith(capture.SUFFIXES)


@pytest.mark.long
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs Linux' account of memory")
def test_streaming_takes_a_memory_that_does_not_grow_with_the_file(tmp_path: Path) -> None:
    """70 MB and 180 MB unpacked from zstd, many pieces each: the second takes hardly more than the first."""
    body = pcap([Record(0, FRAMES[19] + b"\0" * 60)] * 40_000)
    paths = {repeats: tmp_path / f"{repeats}.zst" for repeats in (12, 30)}
    for repeats, path in paths.items():
        with pa.CompressedOutputStream(pa.OSFile(str(path), "wb"), "zstd") as stream:
            stream.write(body[:24])
            for _ in range(repeats):
                stream.write(body[24:])
    code = (
        "import sys; from pathlib import Path; from gradwire.traces.packets.capture import packet_blocks\n"
        "for path in sys.argv[1:]:\n"
        "    print(sum(len(b) for b in packet_blocks(Path(path))))\n"
        "    print(*[l.split()[1] for l in open('/proc/self/status') if l.startswith('VmHWM')])"
    )
    command = [sys.executable, "-c", code, *map(str, paths.values())]
    said = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.split()
    assert list(map(int, said[::2])) == [40_000 * repeats for repeats in paths]
    peaks = [int(kib) * 1024 for kib in said[1::2]]
    assert peaks[1] < peaks[0] + (60 << 20)
    assert peaks[1] < 500_000_000
