"""The size of tcpdump's ring buffers: a share of the machine's free memory."""

import pytest

from gradwire.emu.capturing.session import ring_kib


@pytest.mark.parametrize(
    ("n_hosts", "gib", "mib"),
    [(8, 24, 256), (64, 16, 32), (8, 1, 16), (64, 1, 8)],  # an eighth of memory, shared; 8 to 256 MiB
)
def test_the_rings_take_an_eighth_of_memory_at_most_but_never_nothing(
    n_hosts: int, gib: int, mib: int
) -> None:
    assert ring_kib(n_hosts, gib << 30) == mib * 1024
