"""A YAML file gives the fabric that it describes, or one line that says what is wrong in which line."""

import re
import time
from pathlib import Path

import pytest

from gradwire.planning.fabrics.fabric import Egress, Link
from gradwire.planning.fabrics.fabricfile import MAX_FILE_NBYTES, fabric_of_yaml
from gradwire.planning.fabrics.spec import parse_fabric

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"
HEAD = "hosts: h0..1\nswitches: s0..1\nlinks:\n"  # the first line of links is the fourth
CABLED = HEAD + "- {a: h0, b: s0}\n- {a: h1, b: s1}\n"


def test_the_bigraph_that_is_written_out_is_the_family_s() -> None:
    ours, known = parse_fabric(str(EXAMPLES / "bigraph.yaml")), parse_fabric("bigraph:n=4,m=2")
    names = dict(zip(ours.hosts, known.hosts, strict=True))
    cables = {frozenset((names.get(link.a, link.a), link.b)) for link in ours.links}
    assert cables == {frozenset((link.a, link.b)) for link in known.links}
    assert ours.switches == known.switches
    assert ours.peers[Egress("lower1", 12)] == Egress("upper1", 12)
    assert ours.spec == "bigraph-by-hand"


def test_the_pod_has_the_cables_that_its_comment_says() -> None:
    pod = parse_fabric(str(EXAMPLES / "pod.yaml"))
    assert len(pod.links) == 16 + 4 * 2 + 4
    assert {link.queue_nbytes for link in pod.links if link.b.startswith("core")} == {500_000}
    assert {link.queue_nbytes for link in pod.links if not link.b.startswith("core")} == {None}
    assert pod.links[16] == Link("rack0", 5, "row0", 1, 100_000_000)


def test_a_file_without_a_name_gives_the_fabric_its_own(tmp_path: Path) -> None:
    path = tmp_path / "my [b]lab.yaml"
    path.write_text(CABLED + "- {a: s0, b: s1}\n")
    assert parse_fabric(str(path)).spec == "my__b_lab.yaml"


def test_a_link_s_own_words_come_before_its_tier_s_and_those_before_the_defaults() -> None:
    text = """
        defaults: {rate: 10M, queue: 20KB, delay: 1ms}
        tiers:
        - {a: leaf*, b: spine0, rate: 20M}
        - {a: [spine0, spine1], b: leaf?, rate: 30M, delay: 0.5us}
        hosts: h0..1
        switches: [leaf0..1, spine0..1]
        links:
        - {a: h0, b: leaf0}
        - {a: h1, b: leaf1, queue: auto}
        - {a: leaf0..1, b: spine0..1}
        - {a: leaf0, b: leaf1, rate: 40M, delay: 0}
    """
    links = fabric_of_yaml(text.encode(), "x").links
    wires = {(link.a, link.b): (link.rate_bps, link.queue_nbytes, link.delay_ns) for link in links}
    assert wires == {
        ("h0", "leaf0"): (10_000_000, 20_000, 1_000_000),
        ("h1", "leaf1"): (10_000_000, None, 1_000_000),
        ("leaf0", "spine0"): (20_000_000, 20_000, 500),
        ("leaf1", "spine0"): (20_000_000, 20_000, 500),
        ("leaf0", "spine1"): (30_000_000, 20_000, 500),
        ("leaf1", "spine1"): (30_000_000, 20_000, 500),
        ("leaf0", "leaf1"): (40_000_000, 20_000, 0),
    }


def test_ports_that_are_named_are_left_out_when_the_others_are_numbered() -> None:
    text = CABLED + "- {a: s0, b: s1}\n- {a: s0, a_port: 1, b: s1, b_port: 3}\n"
    ports = {(link.a, link.a_port, link.b_port) for link in fabric_of_yaml(text.encode(), "x").links}
    assert ports == {("h0", 0, 2), ("h1", 0, 1), ("s0", 3, 2), ("s0", 1, 3)}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (CABLED + "- {a: s0, b: s2}\n", "line 6: there is no host or switch s2"),
        (CABLED + "- {a: s0, b: s0}\n", "line 6: s0 is cabled to itself"),
        (CABLED + "- {a: h0, b: h1}\n", "line 6: h0 and h1 are both hosts; cable each host to a switch"),
        (CABLED + "- {a: h0, b: s1}\n", "line 6: host h0 has two cables; a host can have only one"),
        (CABLED, "line 1: host h1 cannot be reached from h0"),
        (HEAD + "- {a: h0, b: s0}\n- {a: s0, b: s1}\n", "line 1: host h1 has no cable"),
        (HEAD + "- {a: h0..1, b: s0}\n", "line 2: switch s1 has no cable"),
        (
            CABLED + "- {a: s0, b: s1, a_port: 1}\n- {a: s0, b: s1, a_port: 1}\n",
            "line 7: port 1 of s0 is cabled",
        ),
        (
            CABLED + "- {a: s0, b: s1, a_port: 0}\n",
            "line 6: the ports of switch s0 are numbered from 1, got port 0",
        ),
        (CABLED + "- {a: s0, b: s1, a_port: -1}\n", "line 6: links.2.a_port: "),
        (CABLED + "- {a: s0, b: s1, a_port: yes}\n", "line 6: links.2.a_port must be a whole number"),
        (
            HEAD + "- {a: h0..1, b: s0, b_port: 3}\n",
            "line 4: this line names a port but makes several cables: leave the port out",
        ),
        (HEAD + "- {a: h0, b: s0, a_port: 1}\n", "line 4: host h0 has only port 0, got port 1"),
        (
            CABLED + "- {a: s0, b: s1, rate: 0}\n",
            "line 6: s0 to s1: a link needs a rate above 0 and up to 100G",
        ),
        (
            CABLED + "- {a: s0, b: s1, rate: 200G}\n",
            "line 6: s0 to s1: a link needs a rate above 0 and up to",
        ),
        (CABLED + "- {a: s0, b: s1, rate: 999k}\n", "line 6: s0 to s1: a link's rate must be at least 1M"),
        (CABLED + "- {a: s0, b: s1, rate: fast}\n", "line 6: links.2.rate: 'fast' is not a rate"),
        (
            CABLED + "- {a: s0, b: s1, rate: 1.5}\n",
            "line 6: links.2.rate: '1.5' is neither a whole number nor",
        ),
        (CABLED + "- {a: s0, b: s1, queue: 100}\n", "line 6: s0 to s1: a queue must have room for a frame"),
        (CABLED + "- {a: s0, b: s1, delay: 1}\n", "line 6: links.2.delay: '1' is not a time"),
        (
            CABLED + "- {a: s0, b: s1, delay: 2s}\n",
            "line 6: s0 to s1: a link's delay can be at most 1s, got 2s",
        ),
        (
            CABLED + "- {a: s0, b: s1, speed: 1G}\n",
            "line 6: there is no key 'speed'; the keys are rate, queue, delay, a, b, a_p",
        ),
        (CABLED + "- {a: s0, b: s1, rtae: 1G}\n", "line 6: there is no key 'rtae' (did you mean rate?); the"),
        (CABLED + "- {a: s0}\n", "line 6: links.2.b is missing"),
        (CABLED + "- {a: s0, a: s1}\n", "line 6: the key 'a' is given twice"),
        (CABLED + "- {a: s0, b: 'core 1'}\n", "line 6: 'core 1' is not a node name"),
        (CABLED + "tiers: [{a: spine*, b: s0}]\n", "line 6: no node matches 'spine*'"),
        (
            CABLED + "colour: red\n",
            "there is no key 'colour'; the keys are name, defaults, mtu, tiers, hosts, switches, links",
        ),
        (CABLED + "name: a:b\n", "line 6: name may have letters"),
        (CABLED + "mtu: 9001\n", "line 6: mtu: an MTU must be 1500 to 9000 bytes, got 9001"),
        (CABLED + "mtu: '9000'\n", "line 6: mtu must be a whole number"),
        (CABLED + "- {a: s0, b: s1, queue: 9KB}\nmtu: 9000\n", "room for a frame of 9014 bytes"),
        (CABLED + "- {a: s0, b: s1, mtu: 9000}\n", "line 6: there is no key 'mtu'"),
        (CABLED + "  x", "line 6: "),
        ("hosts: h0..1\nswitches: h1\nlinks: [{a: h0, b: h1}]", "line 1: two nodes are named h1"),
        ("hosts: h0\nswitches: s0\nlinks: [{a: h0, b: s0}]", "line 1: a fabric needs at least 2 hosts"),
        (
            "hosts: h5..1\nswitches: s0\nlinks: [{a: h5, b: s0}]",
            "line 1: 'h5..1' must name 1 to 8192 nodes",
        ),
        (
            "hosts: h0..65000\nswitches: s0\nlinks: [{a: h0..65000, b: s0}]",
            "'h0..65000' must name 1 to 8192 nodes",
        ),
        (
            "hosts: h0..999999\nswitches: s0\nlinks: [{a: h0, b: s0}]",
            "line 1: 'h0..999999' must name 1 to",
        ),
        (
            "hosts: h0..1\nswitches: s0..1999\nlinks: [{a: s0..1999, b: s0..1999}]",
            "4,000,000 cables; gradwire plans at most 1,000,000",
        ),
        (
            "hosts: h0..1\nswitches: averylongname\nlinks: [{a: h0..1, b: averylongname}]",
            "interface averylongname-eth1 has 18 characters, Linux allows 15",
        ),
        ("", "the file is not a mapping; begin it with hosts:, switches:, links:"),
        ("[]", "line 1: the file is not a mapping; begin it with hosts:, switches:, links:"),
        ("fabric", "line 1: the file is not a mapping; begin it with hosts:, switches:, links:"),
        ("hosts: 7", "line 1: hosts must be a list"),
        (HEAD.removesuffix("\n") + " 3", "line 3: links must be a list"),
        (HEAD + "- 3\n", "line 4: links.0 must be a mapping"),
        (HEAD + "- {a: [], b: s0}\n", "line 4: links.0.a must not be empty"),
        ("hosts: [7]\nswitches: s\nlinks: [{a: h0, b: s}]", "line 1: hosts.0 must be text"),
        (CABLED + "- {a: s0, b: s1, a_port: x}\n", "line 6: links.2.a_port must be a whole number"),
        ("name: ':'\n" + CABLED, "line 1: name may have letters, digits"),
        ("hosts: !!python/object:os.system x", "line 1: gradwire does not read values with the tag"),
        ("a: &x [h0]\nhosts: *x", "line 1: anchors and aliases are not allowed"),
        ("[" * 100_000, "line 1: the document is nested too deeply"),
        ("hosts: h0\nname: !!bool x", "line 2: 'x' is not a valid bool"),
        ("hosts: h0\nname: !!int ''", "line 2: '' is not a valid int"),
        ("hosts: [h0,\n  !!float '']", "line 2: '' is not a valid float"),
        ("hosts: h0\nname: !!timestamp x", "line 2: 'x' is not a valid timestamp"),
        ("hosts: h0\nname: 2026-13-01", "line 2: '2026-13-01' is not a valid timestamp"),
        (f"hosts: h0\nname: 1{200 * ':1'}.0", f"line 2: '{20 * '1:'}' is not a valid float"),
        (f"hosts: h0\nname: !!int {2000 * 'x'}", f"line 2: '{40 * 'x'}' is not a valid int"),
        ("\x00", "not valid YAML: "),
        (
            CABLED + f"- {{a: {2000 * 's'}, b: s1}}\n",
            f"line 6: '{40 * 's'}…' is not a node name: it has 2,000 characters, 40 are allowed",
        ),
        (
            CABLED + f"- {{a: s0, b: s1, rate: {2000 * 'x'}}}\n",
            f"line 6: links.2.rate: '{40 * 'x'}' is not a rate",
        ),
        (CABLED + f"- {{a: s0, b: s1, delay: {2000 * 'x'}}}\n", f"'{40 * 'x'}' is not a time"),
        ("\xe4", "not valid YAML: "),
        ("hosts: h0\n---\nhosts: h1", "expected a single document"),
    ],
)
def test_what_cannot_be_a_fabric_is_refused_with_its_line(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=re.escape(reason)) as caught:
        fabric_of_yaml(text.encode("latin-1"), "lab")
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 200


def test_a_file_that_is_too_large_or_absent_is_not_read(tmp_path: Path) -> None:
    large = tmp_path / "large.yaml"
    large.write_bytes(b"#" * (MAX_FILE_NBYTES + 1))
    with pytest.raises(ValueError, match="larger than 1 MiB"):
        parse_fabric(str(large))
    with pytest.raises(OSError, match="No such file"):
        parse_fabric(str(tmp_path / "absent.yaml"))


@pytest.mark.parametrize(
    "text",
    [
        "hosts: [" + "h0..1023," * 20_000 + "]",
        "hosts: h0..1\nswitches: s0..8000\ntiers:\n" + "- {a: '*?*?*?*?*x', b: '*'}\n" * 20,
        HEAD + "- {a: h0..1, b: s0..1}\n" * 6_000,
        "- " * 500_000,
    ],
)
def test_a_hostile_file_is_refused_within_seconds(text: str) -> None:
    began_s = time.process_time()
    with pytest.raises(ValueError, match=r"line|plans at most"):
        fabric_of_yaml(text.encode(), "x")
    assert time.process_time() - began_s < 10
