"""tcpdump's ring, and its own words about what it lost."""

import pytest

from emu.capturing.ring import Counts, counts, free_nbytes, ring_kib

# As tcpdump 4.99.3 writes it.
SAID = """tcpdump: listening on h0-eth0, link-type EN10MB (Ethernet), snapshot length 262144 bytes
{captured} captured
{received} received by filter
{dropped} dropped by kernel
"""


@pytest.mark.parametrize(
    ("captured", "received", "dropped", "expected"),
    [
        ("1299 packets", "1299 packets", "0 packets", Counts(1299, 1299, 0)),
        ("1 packet", "2 packets", "1 packet", Counts(1, 2, 1)),
    ],
)
def test_tcpdumps_counts_are_read(captured: str, received: str, dropped: str, expected: Counts) -> None:
    assert counts(SAID.format(captured=captured, received=received, dropped=dropped)) == expected


def test_what_the_interface_dropped_counts_too() -> None:
    said = SAID.format(captured="5 packets", received="9 packets", dropped="3 packets")
    assert counts(said + "4 packets dropped by interface\n") == Counts(5, 9, 7)


@pytest.mark.parametrize("said", ["", "tcpdump: listening on h0-eth0\n", "7 packets captured\n"])
def test_a_tcpdump_that_was_killed_has_no_counts(said: str) -> None:
    assert counts(said) is None


@pytest.mark.parametrize(
    ("n_hosts", "gib", "mib"),
    [(8, 24, 256), (64, 16, 32), (8, 1, 16), (64, 1, 8)],  # an eighth of memory, shared; 8 to 256 MiB
)
def test_the_rings_take_an_eighth_of_memory_at_most_but_never_nothing(
    n_hosts: int, gib: int, mib: int
) -> None:
    assert ring_kib(n_hosts, gib << 30) == mib * 1024


def test_free_memory_is_read_from_the_kernels_text() -> None:
    assert free_nbytes("MemTotal:  100 kB\nMemFree:  7 kB\nMemAvailable:   24000 kB\n") == 24_000 * 1024
