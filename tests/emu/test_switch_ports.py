"""The file that the switch agent is started with."""

import json
from pathlib import Path
from typing import Any

import pytest

from gradwire.emu.switch import ports
from gradwire.emu.switch.running import ports_file
from gradwire.planning.fabrics.fabric import HOST_PORT, Egress
from gradwire.planning.fabrics.spec import parse_fabric
from gradwire.planning.losses import Loss

ONE = {"port": 1, "interface": "leaf0-eth1", "rate_bps": 10**8}
SWITCH = {"name": "leaf0", "dpid": 1, "ports": [ONE]}


def test_what_the_run_writes_is_what_the_agent_reads(tmp_path: Path) -> None:
    fabric = parse_fabric("bigraph:n=4,m=2")
    path = tmp_path / "ports.json"
    path.write_text(json.dumps(ports_file(fabric)))
    read = ports.load(path)
    assert {switch.name: switch.dpid for switch in read} == {s: fabric.dpid(s) for s in fabric.switches}
    assert all({port.port for port in s.ports} == set(fabric.ports[s.name]) for s in read)


@pytest.mark.parametrize(
    ("value", "complaint"),
    [
        ({}, "switches"),
        ({"switches": []}, "at least 1"),
        ({"switches": [{**SWITCH, "dpid": 0}]}, "dpid"),
        ({"switches": [{**SWITCH, "ports": [{**ONE, "port": 0}]}]}, "port"),
        ({"switches": [{**SWITCH, "ports": [{**ONE, "interface": "a b"}]}]}, "interface"),
        ({"switches": [{**SWITCH, "ports": [{**ONE, "interface": "x" * 16}]}]}, "interface"),
        ({"switches": [SWITCH, {**SWITCH, "dpid": 2}]}, "interface leaf0-eth1 is listed twice"),
        ({"switches": [{**SWITCH, "ports": [{**ONE, "rx_loss": 1.5}]}]}, "rx_loss"),
        ({"switches": [{**SWITCH, "ports": [{**ONE, "tx_loss": -0.1}]}]}, "tx_loss"),
        ({"switches": [{**SWITCH, "ports": [{**ONE, "tx_loss": float("nan")}]}]}, "tx_loss"),
        ({"switches": [{**SWITCH, "loss_seed": 2**32}]}, "loss_seed"),
        ({"switches": [SWITCH, {**SWITCH, "ports": []}]}, "dpid 1 is listed twice"),
    ],
)
def test_a_file_that_makes_no_sense_is_refused_in_one_line(
    value: dict[str, Any], complaint: str, tmp_path: Path
) -> None:
    path = tmp_path / "ports.json"
    path.write_text(json.dumps(value))
    with pytest.raises(ValueError, match=complaint) as refused:
        ports.load(path)
    assert "\n" not in str(refused.value)
    assert str(path) in str(refused.value)


def test_losses_stand_at_the_switches_that_do_the_dropping(tmp_path: Path) -> None:
    """To a switch where it comes in, to a host where it goes out."""
    fabric = parse_fabric("bigraph:n=4,m=2")
    host = fabric.hosts[0]
    leaf = fabric.peers[Egress(host, HOST_PORT)]
    path = tmp_path / "ports.json"
    losses = [Loss(Egress(host, HOST_PORT), 0.01), Loss(leaf, 0.02)]
    path.write_text(json.dumps(ports_file(fabric, losses, loss_seed=7)))
    read = ports.load(path)
    loss_of = {(s.name, port.port): (port.rx_loss, port.tx_loss) for s in read for port in s.ports}
    lossy = {place: ratios for place, ratios in loss_of.items() if any(ratios)}
    assert lossy == {(leaf.node, leaf.port): (0.01, 0.02)}
    assert {switch.loss_seed for switch in read} == {7}


def test_a_run_without_losses_names_none() -> None:
    listed = json.dumps(ports_file(parse_fabric("bigraph:n=4,m=2")))
    assert "loss" not in listed


def test_a_file_that_is_no_json_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "ports.json"
    path.write_bytes(b"\xff\x00 nonsense")
    with pytest.raises(ValueError, match="not a list of switches"):
        ports.load(path)
