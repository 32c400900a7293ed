"""A lab file is read as it is written; what is wrong in it is said in one line, with its line and key."""

import re
from pathlib import Path

import pytest

from gradwire.planning.fabrics.spec import parse_fabric
from gradwire.tools.labs.file import MAX_FILE_NBYTES, BadLab, Lab, read_lab
from gradwire.tools.options.choices import MatrixChoices, NetworkChoices, RunChoices, TrafficChoices

ROOT = Path(__file__).parents[3]
JOB = "job: {bench: allreduce}\n"
INLINE = """\
  - name: own
    hosts: h0..1
    switches: s
    links: [{a: h0..1, b: s}]
    mtu: 9000
"""


def lab(tmp_path: Path, text: str | bytes) -> Lab:
    path = tmp_path / "a.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_lab(path)


def test_a_lab_has_the_choices_that_its_file_makes_and_the_defaults_for_others(tmp_path: Path) -> None:
    text = """\
        # Comments are free.
        name: two rings
        job: [a.pcap, b.pcap]
        fabric: star:hosts=8
        algorithm: [ring, halving-doubling]
        ina: off,on
        seed: 7
        fail: h0-switch0@0.5
        scale-bytes: 0.50
        slots: 64
        reroute: no
        repeat: 5
        """
    made = lab(tmp_path, "\n".join(line.strip() for line in text.splitlines()))
    assert (made.name, made.mode) == ("two rings", None)
    assert made.job == (tmp_path / "a.pcap", tmp_path / "b.pcap")
    assert made.fabrics == (("star:hosts=8", parse_fabric("star:hosts=8")),)
    assert made.choices(MatrixChoices()) == MatrixChoices(
        algorithm=["ring", "halving-doubling"], ina="off,on"
    )
    assert made.choices(NetworkChoices()) == NetworkChoices(seed=7, fail=["h0-switch0@0.5"], slots=64)
    assert made.choices(TrafficChoices()) == TrafficChoices(scale_bytes="0.50")
    assert made.choices(RunChoices()) == RunChoices(repeat=5, reroute=False)


def test_yamls_own_words_are_the_texts_that_they_look_like(tmp_path: Path) -> None:
    made = lab(tmp_path, JOB + "ina: on\njitter: 10%\nsend-delay: 0\niteration: [2..5, -1]\n")
    assert made.choices(MatrixChoices()).ina == "on"
    assert made.choices(TrafficChoices()) == TrafficChoices(jitter="10%", iteration=["2..5", "-1"])
    assert made.choices(NetworkChoices()).send_delay == "0"


def test_a_lab_is_called_as_its_file_unless_it_says_otherwise(tmp_path: Path) -> None:
    assert lab(tmp_path, JOB).name == "a"


def test_paths_are_relative_to_the_file_and_names_are_no_paths(tmp_path: Path) -> None:
    text = "job: ../x/a.workload.json\nbeside: b.pcap\nkeys: tensors\nrank-map: ranks.yaml\n"
    made = lab(tmp_path, text)
    assert made.job == (tmp_path.parent / "x" / "a.workload.json",)
    traffic = made.choices(TrafficChoices())
    assert (traffic.beside, traffic.rank_map) == ([tmp_path / "b.pcap"], tmp_path / "ranks.yaml")
    assert made.choices(NetworkChoices()).keys == str(tmp_path / "tensors")
    assert lab(tmp_path, "job: a\nkeys: resnet50\n").choices(NetworkChoices()).keys == "resnet50"


def test_a_fabric_may_be_a_spec_a_file_or_written_out(tmp_path: Path) -> None:
    (tmp_path / "own.yaml").write_text((ROOT / "docs" / "examples" / "bigraph.yaml").read_text())
    made = lab(tmp_path, JOB + "fabric:\n  - star:hosts=4\n  - own.yaml\n" + INLINE)
    assert [(text, len(fabric.hosts)) for text, fabric in made.fabrics] == [
        ("star:hosts=4", 4),
        ("own.yaml", 8),
        ("own", 2),
    ]
    assert made.fabrics[2][1].mtu_nbytes == 9000


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "not a lab; write job: and fabric:"),
        ("- a\n", "not a lab; write job: and fabric:"),
        ("fabric: star:hosts=4\n", "line 1: job is missing: it is a path, a list of paths, {sample: NAME}"),
        ("job: {}\n", "line 1: job is not a path"),
        ("job: {make: magic}\n", "line 1: there is no kind of job 'magic'; choose from collective"),
        ("job: {make: gossip, patern: pull}\n", "line 1: there is no key 'patern' (did you mean pattern?)"),
        ("job: {bench: allreduce,\n  end: 1M,\n  size: 3}\n", "line 3: there is no key 'size'"),
        ("job: {bench: sorting}\n", "line 1: job.bench is 'sorting': it can be 'allreduce', 'red"),
        (
            JOB + "\nalgoritm: ring\n",
            "line 3: there is no key 'algoritm' (did you mean algorithm?)",
        ),
        (JOB + "fabrics: star:hosts=4\n", "line 2: there is no key 'fabrics' (did you mean fabric?)"),
        (JOB + "out: x\n", "line 2: out is not a key of a lab: write gradwire run --out"),
        (JOB + "html: x\n", "line 2: html is not a key of a lab: write draw: html"),
        (JOB + "draw: png\n", "line 2: draw.0 is 'png': it can be 'html', 'svg' or 'csv'"),
        (JOB + "seed: many\n", "line 2: seed is not a whole number"),
        (JOB + "seed: -1\n", "line 2: seed must be 0 or more, not -1"),
        (JOB + "switch-slots: 99999999\n", "line 2: switch-slots must be at most "),
        (JOB + "reroute: perhaps\n", "line 2: reroute is neither true nor false"),
        (JOB + "algorithm: [ring, {a: b}]\n", "line 2: algorithm.1 is not text"),
        (JOB + "algorithm: []\n", "line 2: algorithm is empty; leave it out, or write a value"),
        (JOB + "algorithm:\n", "line 2: there is no value; leave the key out, or write one"),
        (JOB + "mode: fast\n", "line 2: mode is 'fast': it can be 'plan', 'replay' or 'bench'"),
        (JOB + "name: 'a:b'\n", "line 2: name 'a:b' can have letters, digits, "),
        (JOB + "fabric:\n- star:hosts=4\n- star:hosts=x\n", "line 4: fabric 'star:hosts=x': hosts must be a"),
        (JOB + "fabric: none.yaml\n", "line 2: "),
        (JOB + "fabric:\n" + INLINE.replace("9000", "9001"), "line 7: mtu: an MTU must be 1500 to 9000"),
        (JOB + "fabric:\n" + INLINE.replace("b: s}", "b: t}"), "line 6: there is no host or switch t"),
        (JOB + "expect:\n- ratio <= 1\n- ratoi <= 1\n", "line 4: there is no quantity 'ratoi' (did you mean"),
        (JOB + "expect: [{that: ratio <= 1, where: {algoritm: x}}]\n", "line 2: there is no key 'algoritm'"),
        (
            JOB + "expect: [{where: {algorithm: x}}]\n",
            "line 2: an expectation has exactly one of that:, bounded_by:",
        ),
        (JOB + "expect:\n- time of {size: 1M} <= 1s\n", "line 3: put it in quotes, as it has ': ' in it"),
        (JOB + "expect:\n- time of {size: 1M} / time of {size: 2M} > 3\n", "line 3: put text with ': ' in"),
        (JOB + "seed: 1\nseed: 2\n", "line 3: the key 'seed' is given twice"),
        (JOB + "? {a: b}\n: c\n", "line 2: a key must be text"),
        ("job: &x a\nfabric: *x\n", "line 1: anchors and aliases are not allowed"),
        ("job: " + "[" * 50, "line 1: the document is nested too deeply"),
        ("job: !!python/object:os.system x\n", ""),
        ("job: [a\n", "line 2: "),
        (b"job: \xff\xfe\n", "not valid YAML"),
    ],
)
def test_what_cannot_be_a_lab_is_refused_with_its_line(
    tmp_path: Path, text: str | bytes, reason: str
) -> None:
    if not reason:
        assert lab(tmp_path, text).job == (tmp_path / "x",)  # a tag makes nothing: text stays text
        return
    with pytest.raises(BadLab, match=re.escape(f"a.yaml: {reason}")) as refused:
        lab(tmp_path, text)
    assert "\n" not in str(refused.value)


def test_no_more_of_a_file_is_read_than_a_lab_may_have(tmp_path: Path) -> None:
    with pytest.raises(BadLab, match="a lab file has at most 1 MiB"):
        lab(tmp_path, JOB + "#" * MAX_FILE_NBYTES)
    with pytest.raises(BadLab, match="algorithm has more than 1000 values"):
        lab(tmp_path, JOB + f"algorithm: [{'ring,' * 1001}]\n")
