"""Opening captures: one file, several, folders, with and without all hosts."""

import json
import os
import shutil
import struct
from pathlib import Path

import pytest

from gradwire.traces.framing.gloo import Opcode
from gradwire.traces.packets.packets import BadCapture
from gradwire.traces.reader import capture_paths, open_trace, read_settings
from gradwire.traces.recognition.ranks import BadTrace
from gradwire.traces.recognition.recognise import recognise
from gradwire.traces.workload import Message
from tests.made_captures import Record, pcap, split_pcap, tcp, udp
from tests.made_gloo import conversation

SAMPLES = Path(__file__).parents[2] / "traces" / "samples"
EIGHT = SAMPLES / "ddp_gloo_8"


def test_one_hosts_missing_file_changes_nothing_because_all_others_saw_it() -> None:
    whole = open_trace([EIGHT])
    without = open_trace([path for path in sorted(EIGHT.glob("*.pcap")) if path.name != "h3.pcap"])
    assert len(without.messages) == len(whole.messages)
    assert without.losses.data_packets == whole.losses.data_packets
    assert any("no capture made at 10.77.0.4" in note for note in without.notes)


def test_hosts_that_talk_to_each_other_unseen_are_named_and_their_workload_is_refused() -> None:
    trace = open_trace([EIGHT / "h0.pcap", EIGHT / "h1.pcap"])
    assert trace.seen_from == (0, 1)
    assert trace.notes[0].startswith("seen from 10.77.0.1, 10.77.0.2 only: ")
    with pytest.raises(BadTrace, match=r"add the captures of 10\.77\.0\.3, 10\.77\.0\.4, 10\.77\.0\.5"):
        recognise(trace)


def test_a_parameter_server_alone_has_seen_everything_but_a_worker_has_not() -> None:
    server = SAMPLES / "ps_1srv_4wk" / "h0.pcap"
    alone, all_of_them = (
        [
            item.model_dump(exclude={"start"})
            for item in recognise(open_trace([path])).items
            if item.kind == "message"
        ]
        for path in (server, server.parent)
    )
    assert alone == all_of_them
    with pytest.raises(BadTrace, match=r"no send shows data from or to 10\.77\.0\.3"):
        recognise(open_trace([server.with_name("h1.pcap")]))


def test_packets_of_all_hosts_in_one_file_give_the_same_messages(tmp_path: Path) -> None:
    """As captured at a switch: every packet once, in one file."""
    sent_only = SAMPLES / "ddp_gloo_4_resnet18_tso"
    files = sorted(sent_only.glob("*.pcap"))
    records = [record for path in files for record in split_pcap(path.read_bytes())]
    records.sort(key=lambda record: struct.unpack("<II", record[:8]))
    (tmp_path / "switch.pcap").write_bytes(files[0].read_bytes()[:24] + b"".join(records))
    one, many = open_trace([tmp_path / "switch.pcap"]), open_trace([sent_only])
    assert one.files[0].host is None
    for name in ("src", "dst", "kind", "tag", "offset", "nbytes"):
        assert getattr(one.messages, name).tolist() == getattr(many.messages, name).tolist()


def test_a_file_given_twice_is_read_once() -> None:
    assert capture_paths([EIGHT, EIGHT / "h0.pcap"]) == capture_paths([EIGHT])


def test_a_folder_without_captures_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadTrace, match="no capture in this folder"):
        open_trace([tmp_path])


@pytest.mark.parametrize("link", ["x.pcap", "gone.pcap"])
def test_a_link_that_leads_to_no_file_is_an_os_error(link: str, tmp_path: Path) -> None:
    (tmp_path / "x.pcap").symlink_to(link)
    for path in (tmp_path, tmp_path / "x.pcap"):
        with pytest.raises(OSError, match=r"x\.pcap"):
            open_trace([path])


def test_of_a_folder_only_regular_files_are_captures(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.pcap")
    (tmp_path / "folder.pcap").mkdir()
    shutil.copy(EIGHT / "h0.pcap", tmp_path)
    assert capture_paths([tmp_path]) == (tmp_path / "h0.pcap",)
    assert capture_paths([tmp_path / "pipe.pcap"]) == (tmp_path / "pipe.pcap",)


def test_a_file_that_does_not_exist_is_an_os_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        open_trace([tmp_path / "none.pcap"])


def test_a_file_in_the_folder_that_is_no_capture_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.pcap").write_text("no")
    with pytest.raises(BadCapture, match=r"a\.pcap: it is not a pcap"):
        open_trace([tmp_path])


def test_a_capture_without_training_says_what_is_in_it(tmp_path: Path) -> None:
    web = [
        Record(1, tcp(("10.0.0.9", 80), ("10.0.0.8", 999), 5, b"x" * 400)),
        Record(2, udp(("1.1.1.1", 1), ("2.2.2.2", 2), b"y")),
    ]
    (tmp_path / "a.pcap").write_bytes(pcap(web))
    with pytest.raises(
        BadTrace, match=r"no training in 2 packets \(most: 10\.0\.0\.9:80 to 10\.0\.0\.8:999, 400 B\)"
    ):
        open_trace([tmp_path / "a.pcap"])


def test_two_jobs_between_the_same_hosts_are_refused(tmp_path: Path) -> None:
    from tests import made_gloo

    conversation(tmp_path / "a.pcap", [[made_gloo.Sent(Opcode.DATA, 2, 9)]], [])
    data = (tmp_path / "a.pcap").read_bytes()
    other = data.replace((5000).to_bytes(2, "big"), (5001).to_bytes(2, "big"))
    (tmp_path / "a.pcap").write_bytes(data + other[24:])
    with pytest.raises(BadTrace, match="2 gloo connections between"):
        open_trace([tmp_path / "a.pcap"])


def test_a_cut_off_capture_is_used_and_its_cut_collective_left_out(tmp_path: Path) -> None:
    for path in EIGHT.glob("*.pcap"):
        data = path.read_bytes()
        (tmp_path / path.name).write_bytes(data[: len(data) * 9 // 10])
    trace = open_trace([tmp_path])
    assert all(file.truncated for file in trace.files)
    workload = recognise(trace)
    assert any("left out, cut by the capture's ends: allreduce tag 7" in note for note in workload.notes)
    assert [item.nbytes for item in workload.items if item.kind == "allreduce"] == [340_008] * 2


def test_a_file_that_is_broken_in_its_middle_is_named_with_the_place_and_the_reason(tmp_path: Path) -> None:
    for path in EIGHT.glob("*.pcap"):
        shutil.copy(path, tmp_path)
    broken = tmp_path / "h3.pcap"
    at = broken.stat().st_size
    with broken.open("ab") as file:
        file.write(b"\xff" * 4000)
    (note,) = [note for note in open_trace([tmp_path]).notes if str(broken) in note]
    assert f"at byte {at:,}" in note
    assert "cut off" not in note


def test_a_rank_map_beside_the_captures_is_obeyed(tmp_path: Path) -> None:
    for path in (SAMPLES / "ps_1srv_4wk").glob("*.pcap"):
        shutil.copy(path, tmp_path)
    ranks = {f"10.77.0.{i + 1}": 4 - i for i in range(5)}
    lines = "".join(f"  {address}: {rank}\n" for address, rank in ranks.items())
    (tmp_path / "trace.yaml").write_text("ranks:\n" + lines)
    trace = open_trace([tmp_path])
    assert trace.addresses == tuple(sorted(ranks, key=lambda address: ranks[address]))
    items = [item for item in recognise(trace).items if isinstance(item, Message)]
    assert {item.src for item in items if item.role == "pull"} == {4}


def test_training_in_another_framing_is_not_left_out_in_silence() -> None:
    trace = open_trace([SAMPLES / "mpi_4_tso", SAMPLES / "tfps_worker"])
    (left,) = {"mpi", "grpc"} - {trace.framing}
    assert any(f"in the framing {left}" in note for note in trace.notes)
    assert not any("also seen" in note for note in open_trace([SAMPLES / "mpi_4_tso"]).notes)


@pytest.mark.parametrize(
    ("manifest", "socket_nbytes"),
    [
        ('{"host_sysctls": {"net/ipv4/tcp_wmem": "4096 131072 262144"}}', 262_144),
        ('{"host_sysctls": {"net/ipv4/tcp_wmem": "4096 131072 99999999999999999999"}}', None),
        ('{"host_sysctls": {"net/ipv4/tcp_wmem": "much"}}', None),
        ('{"host_sysctls": ["net/ipv4/tcp_wmem"]}', None),
        ("{}", None),
        ("", None),
    ],
)
def test_a_manifest_says_how_large_sockets_were(
    tmp_path: Path, manifest: str, socket_nbytes: int | None
) -> None:
    for path in EIGHT.glob("*.pcap"):
        shutil.copy(path, tmp_path)
    assert open_trace([tmp_path]).messages.socket_nbytes is None
    (tmp_path / "manifest.json").write_text(manifest)
    assert open_trace([tmp_path]).messages.socket_nbytes == socket_nbytes


def test_a_manifest_of_another_time_says_nothing_of_sockets(tmp_path: Path) -> None:
    for path in EIGHT.glob("*.pcap"):
        shutil.copy(path, tmp_path)
    first_ns = min(file.first_ns for file in open_trace([tmp_path]).files)
    made = {"schema": "gradwire.capture/1", "host_sysctls": {"net/ipv4/tcp_wmem": "1 2 3"}, "seconds": 60}
    for begun_ns, is_of_these in ((first_ns - 10**9, True), (first_ns - 3600 * 10**9, False)):
        (tmp_path / "manifest.json").write_text(json.dumps({**made, "started_ns": begun_ns}))
        trace = open_trace([tmp_path])
        assert (trace.messages.socket_nbytes, trace.is_emulated) == (
            (3, True) if is_of_these else (None, False)
        )


@pytest.mark.parametrize(
    ("said", "queued_nbytes"), [("64660", 64_660 + 65_536), ("99999999", None), ("much", None), (None, None)]
)
def test_a_manifest_says_how_much_waits_in_a_hosts_port(
    tmp_path: Path, said: str | None, queued_nbytes: int | None
) -> None:
    for path in EIGHT.glob("*.pcap"):
        shutil.copy(path, tmp_path)
    sysctls = {} if said is None else {"net/ipv4/tcp_limit_output_bytes": said}
    (tmp_path / "manifest.json").write_text(json.dumps({"host_sysctls": sysctls}))
    assert open_trace([tmp_path]).queued_nbytes == queued_nbytes


@pytest.mark.parametrize("text", ["ranks: {host: 0}", "rank: {}", "ranks: [1]", "ranks: {10.0.0.1: -1}", "7"])
def test_yaml_that_is_not_a_rank_map_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "ranks.yaml").write_text(text)
    with pytest.raises(BadTrace, match="not a rank map: write"):
        read_settings(tmp_path / "ranks.yaml")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("ranks: " + 100_000 * "[", "line 1: the document is nested too deeply"),
        ("ranks:\n  10.0.0.1: 0\n  10.0.0.1: 1", "line 3: the key '10.0.0.1' is given twice"),
        ("ranks: &a {10.0.0.1: *a}", "line 1: anchors and aliases are not allowed"),
        (f"ranks: {{10.0.0.1: {5000 * '9'}}}", f"line 1: '{40 * '9'}' is not a valid int)"),
        ("ranks: {10.0.0.1: \0}", "not valid YAML"),
        ("ranks:\n  10.0.0.1: ]", "line 2: "),
        ("ranks:\n  10.0.0.1: !!bool x", "line 2: 'x' is not a valid bool)"),
    ],
)
def test_a_rank_map_that_is_not_plain_yaml_is_refused_with_the_reason(
    tmp_path: Path, text: str, why: str
) -> None:
    (tmp_path / "ranks.yaml").write_text(text)
    with pytest.raises(BadTrace) as refused:
        read_settings(tmp_path / "ranks.yaml")
    assert str(refused.value).startswith(f"{tmp_path / 'ranks.yaml'}: not a rank map ({why}")


def test_addresses_of_both_kinds_are_written_as_captures_have_them(tmp_path: Path) -> None:
    (tmp_path / "ranks.yaml").write_text('ranks: {10.0.0.1: 1, "FD00:0::1": 0}')
    assert read_settings(tmp_path / "ranks.yaml") == {"10.0.0.1": 1, "fd00::1": 0}


def test_a_rank_map_that_never_ends_is_refused() -> None:
    with pytest.raises(BadTrace, match="larger than the 1 MiB that a rank map may have"):
        read_settings(Path("/dev/zero"))
