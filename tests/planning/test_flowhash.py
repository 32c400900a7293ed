"""The flow hash against the published values of its two halves, and as a spreader of flows."""

from collections import Counter

import pytest

from gradwire.planning import flowhash
from gradwire.planning.flowhash import flow_hash, switch_salt

CHI_SQUARE_999 = {1: 10.83, 3: 16.27, 7: 24.32, 15: 37.70}  # 0.1 % points by degrees of freedom


@pytest.mark.parametrize(
    ("octets", "expected"),
    [(b"", 0x811C9DC5), (b"a", 0xE40C292C), (b"foobar", 0xBF9CF968)],  # draft-eastlake-fnv, appendix C
)
def test_the_first_half_is_fnv_1a(octets: bytes, expected: int) -> None:
    assert flowhash._fnv1a(octets, seed=0) == expected


@pytest.mark.parametrize(
    ("seed", "expected"), [(0, 0), (1, 0x514E28B7), (0xFFFFFFFF, 0x81F16F39)]
)  # MurmurHash3_x86_32 of no bytes at all is its finaliser of the seed
def test_the_second_half_is_murmur3s_finaliser(seed: int, expected: int) -> None:
    assert flowhash._fmix32(seed) == expected


def hashes(salt: int, n: int = 4000) -> list[int]:
    """Of flows as a training job has them: few hosts, many ports."""
    return [
        flow_hash(0x0A000001 + i % 16, 0x0A000001 + i // 16 % 16, 6, 20000 + 7 * i % 1000, 20000 + i, salt)
        for i in range(n)
    ]


def chi_square(counts: Counter[object], n_cells: int) -> float:
    expected = counts.total() / n_cells
    return sum((n - expected) ** 2 / expected for n in counts.values()) + expected * (n_cells - len(counts))


@pytest.mark.parametrize("n_ports", [2, 4, 8])
@pytest.mark.parametrize("dpid", [1, 2, 20])
def test_flows_spread_evenly_over_the_ports(n_ports: int, dpid: int) -> None:
    chosen: Counter[object] = Counter(h % n_ports for h in hashes(switch_salt(dpid, seed=1)))
    assert chi_square(chosen, n_ports) < CHI_SQUARE_999[n_ports - 1]


def test_two_switches_choose_independently() -> None:
    """Otherwise the flows that one switch sends up one port would all meet at the next one, too."""
    first, second = (hashes(switch_salt(dpid, seed=1)) for dpid in (1, 2))
    pairs: Counter[object] = Counter((a % 4, b % 4) for a, b in zip(first, second, strict=True))
    assert chi_square(pairs, 16) < CHI_SQUARE_999[15]


def test_every_field_and_the_seed_change_the_hash() -> None:
    base = (0x0A000001, 0x0A000002, 6, 20000, 30000, 5)
    changed = [(*base[:i], base[i] + 1, *base[i + 1 :]) for i in range(len(base))]
    assert len({flow_hash(*fields) for fields in [base, *changed]}) == 7


def test_a_salt_has_32_bits_and_depends_on_dpid_and_seed() -> None:
    salts = {switch_salt(dpid, seed) for dpid in (1, 2, 2**64 - 1) for seed in (0, 1)}
    assert len(salts) == 6
    assert all(0 <= salt < 2**32 for salt in salts)
