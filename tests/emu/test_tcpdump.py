"""How much tcpdump keeps, and its own words about what it has and what it lost."""

import pytest

from gradwire.emu.network.tcpdump import TcpdumpCounts, answers, counts, whole_packets

# As tcpdump 4.99.3 writes it.
SAID = """tcpdump: listening on h0-eth0, link-type EN10MB (Ethernet), snapshot length 262144 bytes
{captured} captured
{received} received by filter
{dropped} dropped by kernel
"""


@pytest.mark.parametrize(
    ("captured", "received", "dropped", "expected"),
    [
        ("1299 packets", "1299 packets", "0 packets", TcpdumpCounts(1299, 1299, 0)),
        ("1 packet", "2 packets", "1 packet", TcpdumpCounts(1, 2, 1)),
    ],
)
def test_tcpdumps_counts_are_read(
    captured: str, received: str, dropped: str, expected: TcpdumpCounts
) -> None:
    assert counts(SAID.format(captured=captured, received=received, dropped=dropped)) == expected


def test_what_the_interface_dropped_counts_too() -> None:
    said = SAID.format(captured="5 packets", received="9 packets", dropped="3 packets")
    assert counts(said + "4 packets dropped by interface\n") == TcpdumpCounts(5, 9, 7)


@pytest.mark.parametrize("said", ["", "tcpdump: listening on h0-eth0\n", "7 packets captured\n"])
def test_a_tcpdump_that_was_killed_has_no_counts(said: str) -> None:
    assert counts(said) is None


def test_a_packet_left_in_the_ring_is_lost_though_nothing_was_dropped() -> None:
    assert TcpdumpCounts(captured=127, received=509, dropped=0).lost == 382


def test_a_packet_that_the_kernel_dropped_is_lost_once() -> None:
    assert TcpdumpCounts(captured=6, received=9, dropped=3).lost == 3


def test_each_answer_to_a_signal_is_read_and_none_is_taken_for_the_last_words() -> None:
    said = "".join(
        f"tcpdump: {n} packets captured, 509 packets received by filter, 1 packet dropped by kernel\n"
        for n in (127, 508)
    )
    assert answers("tcpdump: listening on h0-eth0\n" + said) == [
        TcpdumpCounts(127, 509, 1),
        TcpdumpCounts(508, 509, 1),
    ]
    assert counts(said) is None


@pytest.mark.parametrize(
    ("n_hosts", "gib", "mib"),
    [(8, 24, 256), (64, 16, 32), (8, 1, 16), (64, 1, 8)],  # an eighth of memory, shared; 8 to 256 MiB
)
def test_the_rings_take_an_eighth_of_memory_at_most_but_never_nothing(
    n_hosts: int, gib: int, mib: int
) -> None:
    assert whole_packets(n_hosts, gib << 30).ring_kib == mib * 1024
