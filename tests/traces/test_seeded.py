"""Draws: the same for ever, and different for whatever differs."""

from gradwire.traces.seeded import draw


def test_a_draw_is_the_same_on_every_machine() -> None:
    # b2sum -l 64 of the bytes "1", NUL, "port", NUL, "3"
    assert draw(1, "port", 3) == 0xCE542810B715DF3E


def test_draws_for_different_things_differ() -> None:
    seen = {draw(seed, what, n) for seed in range(10) for what in ("port", "place") for n in range(100)}
    assert len(seen) == 2000


def test_what_is_drawn_for_cannot_be_mixed_up_with_its_neighbour() -> None:
    assert draw(1, "ab", "c") != draw(1, "a", "bc")
