"""The worked labs with real packets: each small, and the one on aggregation added up from its captures."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from scapy.utils import rdpcap

from gradwire.emu.project import PROJECT
from gradwire.tools.dissect.scapy_layer import GradwireAggregation
from gradwire.traces.framing.aggregation import PacketKind
from tests.real.commands import CARRIED_OUT, with_given_calibration

pytestmark = [pytest.mark.real, pytest.mark.untimed]

LABS = PROJECT / "labs"
LAB = LABS / "05-aggregation" / "lab.yaml"
NUMBERS = 1024
SENT = [
    path for path in sorted(LABS.glob("*/*.yaml")) if path != LAB and "\nmode: plan" not in path.read_text()
]
SMALL = "128KiB"
AXES = ("fabric", "algorithm", "placement", "routes")
# Of expectations those that hold on a slow machine too; the others are closed forms, and tested on the plans.
EXACT = ("wrong", "worst_link_flows")


def packets(capture: Path, kind: PacketKind) -> list[GradwireAggregation]:
    found = [packet[GradwireAggregation] for packet in rdpcap(str(capture)) if GradwireAggregation in packet]
    return [packet for packet in found if packet.kind == kind]


def elements(capture: Path, kind: PacketKind) -> "dict[int, np.ndarray[tuple[int], np.dtype[np.int64]]]":
    carried = [packet for packet in packets(capture, kind) if packet.elements]
    return {packet.chunk: np.array(packet.elements, dtype=np.int64) for packet in carried}


def test_the_switch_answers_every_host_with_the_sums_of_the_integers_that_all_have_sent(
    tmp_path: Path,
) -> None:
    done = with_given_calibration("run", str(LAB), "--out", str(tmp_path / "run"))
    assert done.returncode in CARRIED_OUT, done.stderr
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


def small(lab: Path) -> dict[str, Any]:
    """The lab with the first and the last of everything that varies, one repeat of a small size, and of its
    expectations those that are exact.
    """
    made: dict[str, Any] = yaml.safe_load(lab.read_text()) | {"repeat": 1}
    for axis in AXES:
        if isinstance(made.get(axis), list):
            made[axis] = [made[axis][0], made[axis][-1]]
    if isinstance(made["job"], dict):
        made["job"]["begin"] = SMALL
    else:
        made |= {"job": str(lab.parent / made["job"]), "iteration": 1}
    if "fail" in made:
        made["fail"] = made["fail"].replace("@0.2", "@0.01")
    that = [each if isinstance(each, str) else each.get("that", "bounded_by") for each in made["expect"]]
    made["expect"] = [each for each, text in zip(made["expect"], that, strict=True) if text.startswith(EXACT)]
    return made


@pytest.mark.parametrize("lab", SENT, ids=lambda lab: f"{lab.parent.name}-{lab.stem}")
def test_the_cells_of_a_lab_are_sent_and_add_up(lab: Path, tmp_path: Path) -> None:
    made = small(lab)
    assert made["expect"]
    file = tmp_path / "lab.yaml"
    file.write_text(yaml.safe_dump(made))
    done = with_given_calibration("run", str(file), "--out", str(tmp_path / "run"))
    assert done.returncode in CARRIED_OUT, f"{done.stdout}{done.stderr}"
    rows = json.loads((tmp_path / "run" / "result.json").read_text())["rows"]
    assert {row["wrong"] for row in rows} == {0}
    assert len(rows) == 2 ** sum(isinstance(made.get(axis), list) for axis in AXES)


def test_every_lab_but_the_one_on_policies_is_sent_in_a_test() -> None:
    named = {lab.parent.name[:2] for lab in [*SENT, LAB]}
    assert named == {path.name[:2] for path in LABS.iterdir() if path.is_dir()} - {"07"}
