"""Names of parameter servers' algorithms: what they mean, and which are refused in what words."""

import pytest

from gradwire.traces.schedules.algorithms.servernames import parse_layout
from gradwire.traces.schedules.algorithms.servers import Layout
from gradwire.traces.schedules.collectives import algorithm


@pytest.mark.parametrize(
    ("text", "layout"),
    [
        ("central", Layout("servers", 1)),
        ("servers=4", Layout("servers", 4)),
        ("colocated", Layout("colocated")),
        ("colocated,servers=1", Layout("colocated", 1)),
        ("hierarchical,chunk=1MiB", Layout("hierarchical", chunk_nbytes=1 << 20)),
        ("servers=2,keys,assign=round-robin", Layout("servers", 2, keys=True, assign="round-robin")),
        ("central,overlap=off,chunk=off", Layout("servers", 1, chunk_nbytes=None, overlap=False)),
    ],
)
def test_a_name_says_who_serves_and_how(text: str, layout: Layout) -> None:
    assert parse_layout(text) == layout
    assert algorithm(f"ps:{text}").name == f"ps:{text}"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", r"no layout ''; choose from central, servers=K, colocated, hierarchical"),
        ("centrl", r"no layout 'centrl'"),
        ("central=2", r"no layout 'central=2'"),
        (
            "central,server=2",
            r"no key 'server' \(did you mean servers\?\); choose from servers, chunk, keys, assign, overlap",
        ),
        ("central,servers=2", r"central has one server: leave servers= out"),
        ("servers=2,chunk=1K,chunk=2K", r"chunk is given twice"),
        ("servers=0", r"servers: '0' is not a whole number from 1 to 512"),
        ("servers=-1", r"servers: '-1' is not"),
        ("servers=1000000000", r"servers: '1000000000' is not a whole number from 1 to 512"),
        ("servers", r"servers needs a value"),
        ("servers=2,chunk=0", r"chunk=0 must be from 4 bytes to 1024 GiB, or off"),
        ("servers=2,chunk=99999999999999GiB", r"chunk=99999999999999GiB must be from 4 bytes"),
        ("servers=2,chunk=much", r"'much' is not a size"),
        ("servers=2,assign=round-robin", r"add keys, or leave it out"),
        ("servers=2,keys,assign=best", r"no assign 'best'; choose from largest-first, round-robin"),
        ("servers=2,keys=3", r"keys takes no value: name their sizes with --keys"),
        ("central,overlap=yes", r"no overlap 'yes'; choose from on, off"),
        ("hierarchical,servers=2", r"leave servers= out"),
    ],
)
def test_a_name_that_means_nothing_is_refused_with_what_there_is(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=f"^algorithm 'ps:{text}': .*{reason}"):
        algorithm(f"ps:{text}")
