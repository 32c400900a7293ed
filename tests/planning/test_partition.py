"""A fabric split over machines: balanced, and with few cables between them."""

from collections import Counter
from itertools import combinations

import pytest

from gradwire.planning.fabrics.fabric import Fabric
from gradwire.planning.fabrics.paths import access_switch
from gradwire.planning.fabrics.spec import parse_fabric
from gradwire.planning.machines.machinesfile import Machine, check_mtu, machines_of_yaml
from gradwire.planning.machines.partition import partition

TWO = (Machine(name="left"), Machine(name="right"))


def hosts_of(fabric: Fabric, machines: tuple[Machine, ...]) -> list[int]:
    made = partition(fabric, machines)
    counts = Counter(made.machine_of[host] for host in fabric.hosts)
    return [counts[machine.name] for machine in machines]


def least_crossing(fabric: Fabric) -> int:
    """The fewest cables between two even halves, by trying all ways to put the switches on two sides."""
    n_hosts = Counter(access_switch(fabric, host) for host in fabric.hosts)
    best = len(fabric.links)
    for size in range(1, len(fabric.switches)):
        for chosen in combinations(fabric.switches, size):
            near = set(chosen)
            if 2 * sum(n_hosts[switch] for switch in near) == len(fabric.hosts):
                crossing = sum((link.a in near) != (link.b in near) for link in fabric.inner_links)
                best = min(best, crossing)
    return best


@pytest.mark.parametrize(
    "spec",
    [
        "bigraph:n=8,m=2",
        "bigraph:n=4,m=2",
        "fat-tree:k=4,levels=2",
        "leaf-spine:leaves=4,spines=3,hosts=2",
        "torus:x=4,y=3",
        "mesh:x=4,y=3",
    ],
)
def test_two_machines_get_half_of_the_hosts_each_over_the_fewest_cables(spec: str) -> None:
    fabric = parse_fabric(spec)
    assert hosts_of(fabric, TWO) == [len(fabric.hosts) // 2] * 2
    assert len(partition(fabric, TWO).crossing) == least_crossing(fabric)


def test_a_fat_tree_is_cut_between_pods_at_half_of_the_cores_cables() -> None:
    """Each of k²/4 cores has a cable to each of k pods; wherever it lives, k/2 of them lead away."""
    for k in (4, 8):
        fabric = parse_fabric(f"fat-tree:k={k}")
        assert len(partition(fabric, TWO).crossing) == k * k // 4 * (k // 2)


def test_hosts_are_shared_out_as_cores_are_and_live_with_their_switch() -> None:
    fabric = parse_fabric("fat-tree:k=4")
    machines = (Machine(name="a", cores=4), Machine(name="b", cores=2), Machine(name="c", cores=2))
    assert hosts_of(fabric, machines) == [8, 4, 4]
    machine_of = partition(fabric, machines).machine_of
    assert set(machine_of) == {*fabric.hosts, *fabric.switches}
    assert all(machine_of[host] == machine_of[access_switch(fabric, host)] for host in fabric.hosts)


def test_the_crossing_cables_are_those_whose_ends_live_apart() -> None:
    fabric = parse_fabric("leaf-spine:leaves=3,spines=2,hosts=2")
    made = partition(fabric, (*TWO, Machine(name="third")))
    apart = [link for link in fabric.links if made.machine_of[link.a] != made.machine_of[link.b]]
    assert list(made.crossing) == apart
    assert len(apart) == 4  # a spine is beside one of three leaves


def test_a_fabric_of_one_switch_cannot_be_parted() -> None:
    with pytest.raises(ValueError, match="1 switch with hosts, too few for 2 machines: leave out --machines"):
        partition(parse_fabric("star:hosts=4"), TWO)


def test_a_machine_too_small_for_any_switch_is_named() -> None:
    with pytest.raises(ValueError, match="machine right would have no host"):
        partition(parse_fabric("bigraph:n=4,m=2"), (Machine(name="left", cores=99), Machine(name="right")))


@pytest.mark.parametrize(("mtu", "fits"), [(1549, False), (1550, True)])
def test_packets_of_1500_bytes_need_1550_between_machines(mtu: int, fits: bool) -> None:
    """50 bytes: Ethernet 14, VXLAN 8, UDP 8, IPv4 20 (RFC 7348, figure 1)."""
    machines = machines_of_yaml(f"machines: [{{name: a}}, {{name: b}}]\nmtu: {mtu}".encode())
    fabric = parse_fabric("fat-tree:k=4")
    if fits:
        check_mtu(fabric, machines)
        return
    with pytest.raises(ValueError, match="write mtu: 1550, or give the fabric an MTU of 1,499"):
        check_mtu(fabric, machines)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "the file is not a mapping"),
        ("machines: [{name: a}]", "line 1: machines must name two machines or more"),
        ("machines:\n- name: a\n- name: a", "line 3: two machines are called a"),
        ("machines:\n- name: a\n- nam: b", "line 3: .*nam"),
        ("machines:\n- name: a\n- {name: b, cores: 0}", "line 3: machines.1.cores: "),
        ("machines:\n- name: a\n- name: 'b; reboot'", "line 3: machines.1.name may have"),
        ("machines: [{name: a}, {name: b}]\nmtu: 9", "line 2: mtu: "),
        ("mtu: 1600", "machines is missing"),
    ],
)
def test_a_bad_file_of_machines_is_refused_with_line_and_reason(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        machines_of_yaml(text.encode())
