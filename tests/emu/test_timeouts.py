"""Idle and hard timeouts against their definition: OpenFlow 1.3.5, 5.5."""

from hypothesis import given
from hypothesis import strategies as st

from gradwire.emu.switch.server.state import SECOND_NS, Timeouts
from gradwire.emu.switch.table.numbers import Numbers
from gradwire.emu.switch.table.table import FlowTable, Selection
from gradwire.planning.openflow.entries import Actions, Entry, Gone
from gradwire.planning.openflow.match import Match


class Watched:
    """A table with one entry and a counter; it is seen when asked."""

    def __init__(self, idle_s: int = 0, hard_s: int = 0) -> None:
        self.table = FlowTable(Numbers(10), Numbers(1))
        self.packets = 0
        self._timeouts = Timeouts()
        self.add(0, idle_s, hard_s)

    def add(self, at_s: float, idle_s: int = 0, hard_s: int = 0) -> None:
        since_ns = int(at_s * SECOND_NS)
        entry = Entry(Match(), 1, Actions(), 0, 0, 0, since_ns, idle_s, hard_s)
        list(self.table.add(entry, reset_counts=False))

    def look(self, at_s: float) -> Gone | None:
        """Why the entry ends at this instant, None if it lives."""
        now_ns = int(at_s * SECOND_NS)
        reasons = [reason for _, reason in self._timeouts.expired(self.table, lambda _: self.packets, now_ns)]
        return reasons[0] if reasons else None


def test_an_entry_without_a_timeout_lives_for_ever() -> None:
    assert Watched().look(10**6) is None


def test_a_hard_timeout_ends_an_entry_however_busy_it_is() -> None:
    watched = Watched(hard_s=2)
    for tenth in range(1, 20):
        watched.packets += 1
        assert watched.look(tenth / 10) is None
    assert watched.look(2) is Gone.HARD


def test_an_idle_timeout_begins_anew_with_each_packet() -> None:
    watched = Watched(idle_s=2)
    for second in range(1, 9):
        watched.packets += 1
        assert watched.look(second) is None
    assert watched.look(9.9) is None
    assert watched.look(10) is Gone.IDLE


def test_an_entry_that_never_had_a_packet_is_idle_from_its_adding() -> None:
    watched = Watched(idle_s=2)
    assert watched.look(1.9) is None
    assert watched.look(2) is Gone.IDLE


def test_of_both_timeouts_the_hard_one_is_named_if_both_are_over() -> None:
    assert Watched(idle_s=1, hard_s=1).look(1) is Gone.HARD
    assert Watched(idle_s=1, hard_s=2).look(1) is Gone.IDLE


def test_an_entry_that_is_added_again_lives_from_then_and_keeps_the_count_it_had() -> None:
    watched = Watched(idle_s=2, hard_s=4)
    watched.packets = 7
    assert watched.look(1) is None
    watched.add(2, idle_s=2, hard_s=4)
    assert watched.look(3.9) is None
    assert watched.look(6) is Gone.HARD


def test_an_entry_that_is_added_again_without_a_timeout_has_none() -> None:
    watched = Watched(hard_s=1)
    watched.add(0.5)
    assert watched.look(9) is None


def test_a_modified_entry_keeps_its_timeouts_and_its_age() -> None:
    """6.4: a modify changes the instructions only."""
    watched = Watched(hard_s=2)
    list(watched.table.modify(Selection(), Actions(), reset_counts=False))
    assert watched.look(1.9) is None
    assert watched.look(2) is Gone.HARD


def test_a_deleted_entry_is_not_watched_any_more() -> None:
    watched = Watched(hard_s=1)
    list(watched.table.delete(Selection()))
    assert watched.look(9) is None


@given(
    st.integers(1, 5),
    st.lists(st.tuples(st.integers(1, 8), st.booleans()), max_size=30),
)
def test_an_entry_ends_at_the_first_look_after_its_idle_time(
    idle_s: int, looks: list[tuple[int, bool]]
) -> None:
    """Looks are quarters of a second apart or more; a packet comes right before a look, or none does."""
    watched, now_s, used_s = Watched(idle_s=idle_s), 0.0, 0.0
    for quarters, has_packet in looks:
        now_s += quarters / 4
        watched.packets += has_packet
        used_s = now_s if has_packet else used_s
        expected = Gone.IDLE if now_s - used_s >= idle_s else None
        assert watched.look(now_s) is expected
        if expected is not None:
            return
