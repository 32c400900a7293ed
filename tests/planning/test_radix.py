"""The largest fabrics of switches with so many ports: against what is built, and all that could be."""

import itertools
from collections.abc import Iterator

import pytest

from gradwire.planning.fabrics.figures import figures
from gradwire.planning.fabrics.radix import MAX_RADIX, Size, largest
from gradwire.planning.fabrics.spec import parse_fabric

SMALL = range(2, 9)


def by_family(radix: int) -> dict[str, list[Size]]:
    return {
        family: list(sizes)
        for family, sizes in itertools.groupby(
            sorted(largest(radix), key=lambda size: (size.family, size.n_hosts)), lambda size: size.family
        )
    }


@pytest.mark.parametrize("radix", SMALL)
def test_the_closed_forms_are_the_figures_of_the_fabric_when_it_is_built(radix: int) -> None:
    for size in largest(radix):
        built = figures(parse_fabric(size.spec))
        assert (size.n_hosts, size.n_switches, size.n_ports) == (
            built.n_hosts,
            built.n_switches,
            built.n_ports,
        )
        assert (size.n_cables, size.n_inner_cables) == (built.n_cables, built.n_inner_cables)
        assert (size.radix, size.diameter) == (built.radix, built.diameter)
        assert size.mean_switches == pytest.approx(built.mean_switches)
        assert size.oversubscription == built.oversubscription
        assert size.n_cut * built.host_rate_bps == built.bisection.bps
        assert size.worst_ratio == pytest.approx(built.worst_ratio)


@pytest.mark.parametrize("radix", [4, 16, 48, 64, 512])
def test_sizes_are_the_textbooks(radix: int) -> None:
    """Of a k-ary fat-tree (Al-Fares et al.) k^3/4 hosts below 5k^2/4 switches, of a full leaf-spine k^2/2
    below 3k/2; 3 hosts for each uplink make 3k^2/4 below 5k/4.
    """
    k, made = radix, by_family(radix)
    counts = {family: [(s.n_hosts, s.n_switches) for s in sizes] for family, sizes in made.items()}
    assert counts == {
        "star": [(k, 1)],
        "bigraph": [(k * k // 2, k)],
        "leaf-spine": [(k * k // 2, 3 * k // 2), (3 * k * k // 4, 5 * k // 4)],
        "fat-tree": [(k**3 // 4, 5 * k * k // 4)],
    }
    assert [size.worst_ratio for size in made["leaf-spine"]] == [1, 3]
    assert made["fat-tree"][0].worst_ratio == 1


def fitting(radix: int) -> Iterator[tuple[str, int, float]]:
    """Family, hosts and hosts for each uplink of all fabrics that such switches make."""
    ports = range(1, radix + 1)
    for half, m in itertools.product(ports, ports):
        if half + m <= radix:
            yield "bigraph", 2 * half * m, 0.0
    for leaves, spines, m in itertools.product(ports[1:], ports, ports):
        if spines + m <= radix:
            yield "leaf-spine", leaves * m, m / spines
    for k in ports[1::2]:
        yield "fat-tree", k**3 // 4, 0.0


@pytest.mark.parametrize("radix", [*SMALL, 15, 16, 17])
def test_no_fabric_of_a_family_that_fits_has_more_hosts(radix: int) -> None:
    made = by_family(radix)
    assert all(size.radix <= radix for size in largest(radix))
    for family in ("bigraph", "fat-tree"):
        assert made[family][-1].n_hosts == max(n for name, n, _ in fitting(radix) if name == family)
    for most in (1, 3):
        hosts = max(n for name, n, ratio in fitting(radix) if name == "leaf-spine" and ratio <= most)
        assert hosts in [size.n_hosts for size in made["leaf-spine"] if size.oversubscription <= most]


@pytest.mark.parametrize("radix", [-4, 0, 1, MAX_RADIX + 1])
def test_switches_without_ports_for_two_hosts_and_absurd_ones_are_refused(radix: int) -> None:
    with pytest.raises(ValueError, match=rf"2 to 1,024 ports, got {radix}"):
        largest(radix)


def test_the_largest_switches_are_answered_at_once() -> None:
    assert largest(MAX_RADIX)[-1].n_hosts == MAX_RADIX**3 // 4
