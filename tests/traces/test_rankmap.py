"""Rank maps that people write."""

from pathlib import Path

import pytest

from gradwire.traces.rankmap import read_settings
from gradwire.traces.recognition.ranks import BadTrace


@pytest.mark.parametrize(
    "text", ["ranks: {host: 0}", "rank: {}", "ranks: [1]", "ranks: {10.0.0.1: -1}", "a: [", "7"]
)
def test_a_rank_map_that_is_none_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "ranks.yaml").write_text(text)
    with pytest.raises(BadTrace, match="not a rank map: write"):
        read_settings(tmp_path / "ranks.yaml")


def test_addresses_of_both_kinds_are_written_as_captures_have_them(tmp_path: Path) -> None:
    (tmp_path / "ranks.yaml").write_text('ranks: {10.0.0.1: 1, "FD00:0::1": 0}')
    assert read_settings(tmp_path / "ranks.yaml") == {"10.0.0.1": 1, "fd00::1": 0}


def test_a_rank_map_that_never_ends_is_refused() -> None:
    with pytest.raises(BadTrace, match="larger than the 1 MiB that a rank map may have"):
        read_settings(Path("/dev/zero"))
