"""The lab on aggregation with real packets: what its page adds up by hand, added up from the captures."""

import subprocess
from pathlib import Path

import numpy as np
import pytest
from scapy.utils import rdpcap

from gradwire.emu.project import PROJECT
from gradwire.tools.dissect.scapy_layer import GradwireAggregation
from gradwire.traces.framing.aggregation import PacketKind

pytestmark = [pytest.mark.real, pytest.mark.untimed]

LAB = PROJECT / "labs" / "05-aggregation" / "lab.yaml"
NUMBERS = 1024


def packets(capture: Path, kind: PacketKind) -> list[GradwireAggregation]:
    found = [packet[GradwireAggregation] for packet in rdpcap(str(capture)) if GradwireAggregation in packet]
    return [packet for packet in found if packet.kind == kind]


def elements(capture: Path, kind: PacketKind) -> "dict[int, np.ndarray[tuple[int], np.dtype[np.int64]]]":
    carried = [packet for packet in packets(capture, kind) if packet.elements]
    return {packet.chunk: np.array(packet.elements, dtype=np.int64) for packet in carried}


def test_the_switch_answers_every_host_with_the_sums_of_the_integers_that_all_have_sent(
    tmp_path: Path,
) -> None:
    run = [str(PROJECT / "gradwire"), "run", str(LAB), "--out", str(tmp_path / "run")]
    done = subprocess.run(run, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode in (0, 3), done.stderr  # 3: a busy machine, which changes no sum
    captures = sorted((tmp_path / "run").glob("01-*/captures/h?.pcap"))
    assert len(captures) == 4
    sent = [elements(capture, PacketKind.CONTRIBUTION) for capture in captures]
    for capture in captures:
        got = elements(capture, PacketKind.RESULT)
        repeats, rest = divmod(sum(len(numbers) for numbers in got.values()), NUMBERS)
        assert repeats >= 1 and not rest  # a disturbed repeat is done again
        for chunk, numbers in got.items():
            assert (numbers == sum(of[chunk] for of in sent)).all()
    peaks = [
        max(packet.peak for packet in packets(c, PacketKind.CONTRIBUTION) if packet.chunk == 1)
        for c in captures
    ]
    assert {packet.peak for packet in packets(captures[0], PacketKind.RESULT) if packet.chunk == 1} == {
        max(peaks)
    }
