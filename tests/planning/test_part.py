"""What each machine builds of a fabric: both ends of a crossing cable find each other, and nobody else."""

import pytest

from gradwire.planning.fabrics.fabric import interface
from gradwire.planning.fabrics.spec import parse_fabric
from gradwire.planning.machines.machinesfile import check_buildable, machines_of_yaml
from gradwire.planning.machines.part import MAX_VNI, last_first_vni, part_of
from gradwire.planning.machines.partition import partition

THREE = b"""machines:
  - {name: left, address: 192.0.2.1, ssh: root@left}
  - {name: here, address: 192.0.2.2}
  - {name: right, address: 192.0.2.3, ssh: right, gradwire: ~/gradwire/gradwire}
"""
MACHINES = machines_of_yaml(THREE)
ADDRESSES = {machine.name: str(machine.address) for machine in MACHINES.machines}


@pytest.mark.parametrize("spec", ["fat-tree:k=6", "bigraph:n=8,m=2", "torus:x=4,y=4"])
def test_every_cable_is_on_one_machine_or_a_tunnel_with_an_end_on_each_of_two(spec: str) -> None:
    fabric = parse_fabric(spec)
    made = partition(fabric, MACHINES.machines)
    first = last_first_vni(made)
    parts = {name: part_of(MACHINES, made, name, first) for name in ADDRESSES}
    assert sorted(node for part in parts.values() for node in part.nodes) == sorted(
        (*fabric.hosts, *fabric.switches)
    )
    ends = {(name, tunnel.interface): tunnel for name, part in parts.items() for tunnel in part.tunnels}
    used = []
    for link in fabric.links:
        near, far = made.machine_of[link.a], made.machine_of[link.b]
        if near != far:
            one = ends.pop((near, interface(link.a, link.a_port)))
            other = ends.pop((far, interface(link.b, link.b_port)))
            assert (one.vni, one.far, other.far) == (other.vni, ADDRESSES[far], ADDRESSES[near])
            used.append(one.vni)
    assert not ends
    controls = {name: part.controls for name, part in parts.items()}
    assert [len(controls[name]) for name in ADDRESSES] == [1, 2, 1]
    for control, name in zip(controls["here"], ("left", "right"), strict=True):
        (back,) = controls[name]
        assert (control.near_ip, control.far_ip) == (back.far_ip, back.near_ip)
        assert (control.tunnel.vni, control.tunnel.far) == (back.tunnel.vni, ADDRESSES[name])
        used.append(control.tunnel.vni)
    assert len(set(used)) == len(used)
    assert max(used) <= MAX_VNI
    assert [part.runs_controller for part in parts.values()] == [False, True, False]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{name: a}, {name: b, address: 192.0.2.2, ssh: b}", "machine a has no address"),
        (
            "{name: a, address: 192.0.2.1}, {name: b, address: 192.0.2.1, ssh: b}",
            "machine a: another machine has address 192.0.2.1",
        ),
        (
            "{name: a, address: 127.0.0.1}, {name: b, address: 192.0.2.2, ssh: b}",
            "machine a: 127.0.0.1 does not lead to it from another machine",
        ),
        ("{name: a, address: 0.0.0.0}, {name: b, address: 192.0.2.2, ssh: b}", "machine a: 0.0.0.0 does"),
        ("{name: a, address: 224.0.0.5}, {name: b, address: 192.0.2.2, ssh: b}", "machine a: 224.0.0.5 does"),
        ("left, right", "machines.0 is not a mapping"),
        (
            "{name: a, address: 192.0.2.1}, {name: b, address: 192.0.2.2}",
            "a and b have no ssh: the machine on which",
        ),
        (
            "{name: a, address: 192.0.2.1, ssh: a}, {name: b, address: 192.0.2.2, ssh: b}",
            "every machine has ssh: the machine on which you run the command must be in the file without",
        ),
    ],
)
def test_machines_that_cannot_be_used_together_are_refused(text: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        check_buildable(machines_of_yaml(f"machines: [{text}]".encode()))


@pytest.mark.parametrize("value", ["-oProxyCommand=evil", "a b", "$(evil)", "a;evil", "''"])
@pytest.mark.parametrize("key", ["ssh", "gradwire"])
def test_what_a_shell_would_understand_is_refused(key: str, value: str) -> None:
    text = f"machines: [{{name: a, {key}: {value}}}, {{name: b}}]"
    with pytest.raises(ValueError, match=f"line 1: machines.0.{key}"):
        machines_of_yaml(text.encode())
