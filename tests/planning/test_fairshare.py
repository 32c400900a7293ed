"""Max-min fairness by its definition."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradwire.planning.model import fairshare
from gradwire.planning.model.fairshare import FairShares, max_min_rates

CAPACITY = st.lists(st.floats(1, 1e9), min_size=1, max_size=8)


@given(st.data(), CAPACITY)
def test_every_flow_has_a_full_link_on_which_none_is_faster(
    data: st.DataObject, capacity: list[float]
) -> None:
    links = st.lists(st.integers(0, len(capacity) - 1), min_size=1, unique=True)
    paths = dict(enumerate(data.draw(st.lists(links, min_size=1, max_size=12))))
    rates = max_min_rates(paths, capacity)
    used = [sum(rates[f] for f, path in paths.items() if link in path) for link in range(len(capacity))]
    fastest = [
        max((rates[f] for f, path in paths.items() if link in path), default=0)
        for link in range(len(capacity))
    ]
    assert all(use <= room * (1 + 1e-9) for use, room in zip(used, capacity, strict=True))
    for flow, path in paths.items():
        assert any(
            used[link] >= capacity[link] * (1 - 1e-9) and rates[flow] >= fastest[link] * (1 - 1e-9)
            for link in path
        )


def test_the_textbooks_parking_lot() -> None:
    # One long flow over two links, one short flow on each: the tighter link decides the long one.
    rates = max_min_rates({0: [0, 1], 1: [0], 2: [1]}, [10.0, 6.0])
    assert rates == {0: pytest.approx(3), 1: pytest.approx(7), 2: pytest.approx(3)}


def test_no_flows_have_no_rates() -> None:
    assert max_min_rates({}, [1.0]) == {}


@pytest.mark.parametrize("compiled_above", [0, 1000])
@given(data=st.data(), capacity=CAPACITY)
def test_rates_after_starts_and_stops_are_those_of_the_flows_that_are_left(
    compiled_above: int, data: st.DataObject, capacity: list[float]
) -> None:
    links = st.lists(st.integers(0, len(capacity) - 1), min_size=1, unique=True)
    paths = data.draw(st.lists(links, min_size=1, max_size=12))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fairshare, "COMPILED_ABOVE", compiled_above)
        shares = FairShares(paths, capacity)
    rates: dict[int, float] = {}
    for turned in data.draw(st.lists(st.sets(st.integers(0, len(paths) - 1)), max_size=5)):
        stopped = turned & rates.keys()
        rates |= dict(shares.change(sorted(turned - stopped), sorted(stopped)))
        rates = {flow: rate for flow, rate in rates.items() if flow not in stopped}
        expected = max_min_rates({flow: paths[flow] for flow in rates}, capacity)
        assert rates == pytest.approx(expected)


def test_only_flows_whose_rate_changes_are_returned() -> None:
    shares = FairShares([[0], [0], [1]], [10.0, 6.0])
    assert dict(shares.change([0, 2], [])) == {0: 10.0, 2: 6.0}
    assert dict(shares.change([1], [])) == {0: 5.0, 1: 5.0}
    assert dict(shares.change([], [2])) == {}
    assert dict(shares.change([], [0])) == {1: 10.0}
