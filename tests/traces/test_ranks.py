"""Who is which rank, from rings that the tests draw."""

import numpy as np
import pytest

from gradwire.traces.framing.frames import MessageKind
from gradwire.traces.framing.messages import COLUMNS, Messages
from gradwire.traces.recognition.ranks import (
    BadTrace,
    by_number,
    check_all_seen,
    given_order,
    inferred_order,
    joined,
)

ADDRESSES = tuple(f"10.0.0.{i}" for i in range(1, 5))


def messages(
    edges: list[tuple[int, int]],
    collective: str = "allreduce",
    tag: int = 3,
    addresses: tuple[str, ...] = ADDRESSES,
) -> Messages:
    count = len(edges)
    columns = {name: np.zeros(count, np.int64) for name in COLUMNS}
    columns["src"] = np.array([src for src, _ in edges], np.int32)
    columns["dst"] = np.array([dst for _, dst in edges], np.int32)
    columns["kind"] = np.full(count, MessageKind.DATA, np.uint8)
    columns["tag"] += tag
    columns["whole"] = np.ones(count, np.bool_)
    return Messages(addresses, (collective,), **columns)  # type: ignore[arg-type]


def test_addresses_are_ordered_as_numbers() -> None:
    assert by_number({"10.0.0.10", "10.0.0.9"}) == ("10.0.0.9", "10.0.0.10")
    assert by_number({"fd00::10", "fd00::9", "10.0.0.1"}) == ("10.0.0.1", "fd00::9", "fd00::10")


def test_a_ring_that_goes_down_the_addresses_confirms_their_order() -> None:
    order, note = inferred_order(messages([(1, 0), (2, 1), (3, 2), (0, 3)]), ADDRESSES[0], {})
    assert order == ADDRESSES
    assert "the order of the addresses, by gloo's ring, the rendezvous store at rank 0" in note


def test_a_ring_in_another_order_gives_the_ranks_and_the_store_gives_rank_0() -> None:
    ranks = (2, 0, 3, 1)  # position of rank 0, 1, 2, 3
    edges = [(ranks[r], ranks[r - 1]) for r in range(4)]
    order, note = inferred_order(messages(edges), ADDRESSES[2], {})
    assert order == tuple(ADDRESSES[i] for i in ranks)
    assert "not the order of the addresses" in note


def test_an_allgather_goes_the_other_way_round() -> None:
    order, _ = inferred_order(messages([(0, 1), (1, 2), (2, 3), (3, 0)], "allgather"), None, {})
    assert order == ADDRESSES


def test_what_the_ranks_said_decides_and_the_ring_is_compared_with_it() -> None:
    said = {ADDRESSES[0]: {2}, ADDRESSES[1]: {3}, ADDRESSES[3]: {1}}  # the third opened no connection
    expected = (ADDRESSES[2], ADDRESSES[3], ADDRESSES[0], ADDRESSES[1])
    order, note = inferred_order(messages([(1, 0), (2, 1), (3, 2), (0, 3)]), None, said)
    assert order == expected
    assert "ring" in note  # the same ring, turned
    order, note = inferred_order(messages([(0, 1), (1, 2), (2, 3), (3, 0)]), None, said)
    assert order == expected
    assert "ring" not in note  # another algorithm's ring goes the other way


@pytest.mark.parametrize(
    "said", [{}, {ADDRESSES[1]: {1}}, {a: {1} for a in ADDRESSES[1:]}, {a: {5, 9} for a in ADDRESSES}]
)
def test_greetings_that_do_not_number_the_ranks_are_ignored(said: dict[str, set[int]]) -> None:
    order, note = inferred_order(messages([(1, 0), (2, 0), (3, 0)], "send"), None, said)
    assert order == ADDRESSES
    assert "nothing to check" in note


def test_without_a_ring_the_addresses_decide_and_that_is_said() -> None:
    order, note = inferred_order(messages([(1, 0), (2, 0), (3, 0)], "send"), None, {})
    assert order == ADDRESSES
    assert "nothing to check it with" in note


def test_a_rank_map_decides() -> None:
    rank_of = {address: 3 - i for i, address in enumerate(ADDRESSES)}
    assert given_order(ADDRESSES, rank_of) == ADDRESSES[::-1]


@pytest.mark.parametrize(
    ("rank_of", "reason"),
    [({"10.0.0.1": 0}, "leaves out 10.0.0.2"), (dict.fromkeys(ADDRESSES, 0), "must number")],
)
def test_a_rank_map_that_does_not_fit_is_refused(rank_of: dict[str, int], reason: str) -> None:
    with pytest.raises(BadTrace, match=reason):
        given_order(ADDRESSES, rank_of)


def test_a_host_that_takes_no_part_in_any_allreduce_is_named() -> None:
    with pytest.raises(
        BadTrace, match=r"no allreduce shows data to 10\.0\.0\.4: add the captures of 10\.0\.0\.3, 10"
    ):
        check_all_seen(messages([(1, 0), (2, 1), (3, 2)]), ADDRESSES[:2])


def test_of_many_hosts_that_take_no_part_the_first_are_named() -> None:
    addresses = tuple(f"10.0.0.{i}" for i in range(1, 101))
    to_one = messages([(i, 0) for i in range(1, 100)], addresses=addresses)
    first = r"10\.0\.0\.2, .*, 10\.0\.0\.9 and 91 more"
    with pytest.raises(BadTrace, match=f"data to {first}: add the captures of {first}$"):
        check_all_seen(to_one, addresses[:1])


def test_a_ring_seen_from_every_second_host_is_whole() -> None:
    check_all_seen(messages([(1, 0), (2, 1), (3, 2), (0, 3)]), [ADDRESSES[0], ADDRESSES[2]])


def test_a_worker_of_which_nothing_is_seen_is_named_unless_its_own_file_is_there() -> None:
    quiet = messages([(1, 0), (0, 1), (2, 0)], "send")
    with pytest.raises(BadTrace, match=r"from or to 10\.0\.0\.4"):
        check_all_seen(quiet, [ADDRESSES[1]])
    check_all_seen(quiet, [ADDRESSES[0], ADDRESSES[3]])


def test_hosts_that_connect_only_where_they_exchange_may_have_done_so_with_others() -> None:
    """A gRPC worker's capture shows its servers, and nothing of the other workers that these serve."""
    both = messages([(1, 0), (0, 1)], "send", addresses=ADDRESSES[:2])
    check_all_seen(both, ADDRESSES[1:2])
    with pytest.raises(BadTrace, match=r"with whom else 10\.0\.0\.1 exchanged .*: add the captures of 10"):
        check_all_seen(both, ADDRESSES[1:2], all_connect=False)
    check_all_seen(both, ADDRESSES[:2], all_connect=False)
    check_all_seen(both, [None], all_connect=False)


def test_ranks_of_a_larger_job_are_numbered_anew_and_that_is_said() -> None:
    said = {address: {2 * number} for number, address in enumerate(ADDRESSES)}
    order, note = inferred_order(messages([(1, 0), (2, 0), (3, 0)], "send"), None, said)
    assert order == ADDRESSES
    assert "they say that they are 0, 2, 4, 6 of their job" in note


def test_groups_that_reduce_apart_are_told_from_each_other() -> None:
    src, dst = np.array([0, 2, 1, 3, 5]), np.array([2, 0, 3, 1, 0])
    assert sorted(map(sorted, joined(src, dst))) == [[0, 2, 5], [1, 3]]
