"""Fabric documents are checked wherever they come from; their errors are tested in test_fabricfile."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from gradwire.planning.fabrics.cabling import BadCabling
from gradwire.planning.fabrics.fabricdocument import fabric_of

LEAVES = (
    st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.sampled_from(["h0..3", "s0", "1M"])
)
VALUES = st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
    st.sampled_from(["name", "defaults", "tiers", "hosts", "switches", "links", "a", "b", "a_port", "rate"]),
    inner, max_size=6,
), max_leaves=20)  # fmt: skip


def test_numbers_are_as_good_as_texts() -> None:
    document = {
        "defaults": {"rate": 50_000_000, "queue": 20_000},
        "hosts": ["h0", "h1"],
        "switches": "s0",
        "links": [{"a": "h0..1", "b": "s0", "queue": None}],
    }
    assert {(link.rate_bps, link.queue_nbytes) for link in fabric_of(document).links} == {(50_000_000, None)}


@pytest.mark.long
@given(VALUES)
def test_whatever_the_document_it_is_a_fabric_or_an_error_for_people(value: object) -> None:
    try:
        fabric_of(json.loads(json.dumps(value)))
    except (ValidationError, BadCabling):
        pass
    except ValueError as error:
        pytest.fail(f"no place is named: {error!r}")
