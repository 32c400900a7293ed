"""Failures of cables: what a person writes, and what is refused."""

import pytest

from emu.fabric import Egress, Fabric, cable
from emu.failures import Failure, check_failures, parse_failure
from emu.spec import parse_fabric

LEAF_SPINE = parse_fabric("leaf-spine:leaves=2,spines=2,hosts=1")


def test_a_failure_names_a_cable_and_two_times() -> None:
    # leaf0's ports: 1 is h0, 2 is spine0, 3 is spine1.
    assert parse_failure("leaf0-spine1@0.5,1.25", LEAF_SPINE) == Failure(
        Egress("leaf0", 3), 500_000_000, 1_250_000_000
    )


def test_without_a_second_time_the_cable_stays_down() -> None:
    assert parse_failure("spine0-leaf1@2", LEAF_SPINE) == Failure(Egress("spine0", 2), 2_000_000_000, None)


def test_one_of_several_cables_is_named_by_its_port() -> None:
    links = cable([("h0", "a", 10**6), ("h1", "b", 10**6), ("a", "b", 10**6), ("a", "b", 10**6)])
    twice = Fabric("twice", "file", {}, ("h0", "h1"), ("a", "b"), links)
    assert parse_failure("a:3-b@1", twice).port == Egress("a", 3)
    with pytest.raises(ValueError, match="name one by its port, like a:2-b"):
        parse_failure("a-b@1", twice)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("leaf0-spine9@1", "no node 'spine9'"),
        ("leaf0-leaf1@1", "no cable joins leaf0 and leaf1"),
        ("leaf0-spine1@2,1", "up at 1000000000 ns"),
        ("leaf0-spine1", "write it like"),
        ("leaf0-spine1@soon", "write it like"),
        ("leaf0:9-spine1@1", "no cable joins leaf0:9"),
        ("leaf0-spine1@999999", "0 to 86400 s"),
    ],
)
def test_a_failure_that_cannot_happen_is_refused(text: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        parse_failure(text, LEAF_SPINE)


def test_a_failure_of_no_port_of_the_fabric_is_refused() -> None:
    with pytest.raises(ValueError, match="leaf0 has no port 7"):
        check_failures(LEAF_SPINE, [Failure(Egress("leaf0", 7), 0)])
