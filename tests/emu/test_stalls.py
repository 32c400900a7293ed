"""A processor's timer reports its stalls within the time that is asked for, and no others."""

from gradwire.emu.stalls import LEAST_NS, MAX_STALLS, PERIOD_NS, Stalls, Timer

MS = 1_000_000
START_NS = 10**18  # far after the timer was made: what it saw is what the tests say


def timer(*late_ns: tuple[int, int], seen_ns: int = 1000 * MS) -> Timer:
    """One that was late in these spans after START_NS, and last came back at `seen_ns`."""
    made = Timer()
    for due_ns, now_ns in (*late_ns, (seen_ns, seen_ns)):
        made.woke(START_NS + due_ns, START_NS + now_ns)
    return made


def test_stalls_are_summed_and_what_is_hardly_late_is_left_out() -> None:
    noted = timer((10 * MS, 25 * MS), (100 * MS, 120 * MS), (200 * MS, 200 * MS + LEAST_NS))
    assert noted.lost_s(START_NS, START_NS + 1000 * MS) == 0.035


def test_a_stall_counts_only_inside_the_repeat() -> None:
    noted = timer((-10 * MS, 5 * MS), (90 * MS, 120 * MS), (300 * MS, 400 * MS))
    assert noted.lost_s(START_NS, START_NS + 100 * MS) == 0.015


def test_a_timer_that_does_not_come_back_is_late_until_the_end() -> None:
    noted = timer(seen_ns=60 * MS)
    assert noted.lost_s(START_NS, START_NS + 100 * MS) == (40 * MS - PERIOD_NS) / 1e9
    assert noted.lost_s(START_NS, START_NS + 60 * MS + PERIOD_NS) == 0


def test_of_more_stalls_than_there_is_room_for_the_latest_are_kept() -> None:
    noted = Timer()
    for number in range(MAX_STALLS + 2):
        noted.woke(START_NS + number * 10 * MS, START_NS + number * 10 * MS + MS)
    end_ns = START_NS + (MAX_STALLS + 2) * 10 * MS
    assert noted.lost_s(start_ns=end_ns - 1000 * MS, end_ns=end_ns - 9 * MS) == 0.1
    assert noted.lost_s(START_NS, START_NS + 20 * MS) == 0


def test_without_real_time_priority_nothing_is_known_of_any_processor() -> None:
    refused = Timer()
    refused.keep(cpu=1 << 20)  # no such processor: refused like the priority
    assert refused.lost_s(START_NS, START_NS + MS) is None
    assert Stalls([timer(), refused]).lost_s(START_NS, START_NS + MS) == ()
    assert Stalls([timer((0, MS)), timer()]).lost_s(START_NS, START_NS + MS) == (0.001, 0.0)
