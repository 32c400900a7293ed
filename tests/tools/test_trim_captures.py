"""Cutting captures keeps the first iterations, whole, and changes no packet."""

from pathlib import Path

from gradwire.tools.trim_captures import trim_captures
from gradwire.traces.reader import open_trace
from gradwire.traces.recognition.recognise import recognise
from gradwire.traces.workload import Compute
from tests.made_captures import split_pcap

SAMPLES = Path(__file__).parents[2] / "traces" / "samples"


def test_what_is_left_are_the_first_iterations_without_a_cut_collective(tmp_path: Path) -> None:
    sample = SAMPLES / "ddp_gloo_8"
    trim_captures(sample, tmp_path, iterations=1, sent_only=True)
    whole, part = recognise(open_trace([sample])), recognise(open_trace([tmp_path]))
    kept, left = (
        [
            (i.kind, i.tag, i.nbytes, i.iteration)
            for i in one.items
            if not isinstance(i, Compute) and i.iteration < 1
        ]
        for one in (whole, part)
    )
    assert left == kept
    assert part.iterations[-1] == 0
    assert not any("cut" in note for note in part.notes)
    for path in sorted(tmp_path.glob("*.pcap")):
        assert set(split_pcap(path.read_bytes())) <= set(split_pcap((sample / path.name).read_bytes()))
