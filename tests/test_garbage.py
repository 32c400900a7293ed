import gc
import weakref
from collections.abc import Iterator

import pytest

from emu.garbage import spare_what_is_there


class Ring:
    def __init__(self) -> None:
        self.itself = self


@pytest.fixture(autouse=True)
def collector() -> Iterator[None]:
    threshold = gc.get_threshold()
    yield
    gc.set_threshold(*threshold)
    gc.unfreeze()


def test_what_is_there_is_not_looked_at_again() -> None:
    kept = [[number] for number in range(1000)]
    spare_what_is_there()
    assert gc.get_freeze_count() > len(kept)
    assert not any(each is kept for each in gc.get_objects())


def test_rings_of_objects_still_go_when_enough_has_come() -> None:
    spare_what_is_there()
    ring = Ring()
    gone = weakref.ref(ring)
    del ring
    come: list[list[int]] = []
    while gone() is not None and len(come) < 200_000:
        come.append([len(come)])
    assert 1000 < len(come) < 200_000
