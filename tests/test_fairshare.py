"""Max-min fairness by its definition."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.fairshare import max_min_rates

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
