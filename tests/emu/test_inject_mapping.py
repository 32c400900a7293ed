"""Which host of the fabric plays which host of the capture."""

import pytest

from gradwire.emu.inject.mapping import LEFT_OUT, mapped, parse_map

ADDRESSES = {"10.77.0.10", "10.77.0.2", "10.77.0.1"}
HOSTS = ("h0", "h1", "h2", "h3")


def test_hosts_follow_in_the_order_of_their_numbers_and_not_of_their_letters() -> None:
    assert mapped(ADDRESSES, {}, HOSTS, {}) == {"10.77.0.1": "h0", "10.77.0.2": "h1", "10.77.0.10": "h2"}


def test_ranks_come_first_in_their_order() -> None:
    ranks = {"10.77.0.10": 0, "10.77.0.2": 1}
    assert mapped(ADDRESSES, ranks, HOSTS, {}) == {"10.77.0.10": "h0", "10.77.0.2": "h1", "10.77.0.1": "h2"}


def test_what_is_told_is_obeyed_and_the_others_take_what_is_free() -> None:
    assigned = {"10.77.0.2": "h0", "10.77.0.1": LEFT_OUT}
    assert mapped(ADDRESSES, {}, HOSTS, assigned) == {"10.77.0.2": "h0", "10.77.0.10": "h1"}


@pytest.mark.parametrize(
    ("assigned", "complaint"),
    [
        ({"10.77.0.9": "h0"}, "no packets from or to 10.77.0.9"),
        ({"10.77.0.1": "h9"}, "no host h9; it has h0 to h3"),
        ({"10.77.0.1": "h0", "10.77.0.2": "h0"}, "cannot be both"),
    ],
)
def test_a_map_that_cannot_be_is_refused(assigned: dict[str, str], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        mapped(ADDRESSES, {}, HOSTS, assigned)


def test_too_small_a_fabric_is_told_with_both_ways_out() -> None:
    with pytest.raises(ValueError, match=r"3 hosts but the fabric has 2: .* --map 10.77.0.10=none"):
        mapped(ADDRESSES, {}, HOSTS[:2], {})


def test_a_map_is_read_from_texts() -> None:
    assert parse_map(["10.77.0.1=h3", "10.77.0.2=none"]) == {"10.77.0.1": "h3", "10.77.0.2": LEFT_OUT}


@pytest.mark.parametrize("text", ["h3", "10.77.0.1", "10.77.0.1=", "10.77.0.300=h1", "::1=h1", "=h1"])
def test_what_is_no_map_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ValueError, match=r"write it like 10\.77\.0\.1=h3"):
        parse_map([text])


def test_an_address_cannot_be_mapped_twice() -> None:
    with pytest.raises(ValueError, match="twice"):
        parse_map(["10.77.0.1=h3", "10.77.0.1=h2"])
