"""Operations from messages: collectives, single messages, and notes on what is left out or unusual."""

from dataclasses import replace
from pathlib import Path

import pytest

from gradwire.traces.framing.messages import Messages
from gradwire.traces.reader import open_trace
from gradwire.traces.recognition.operation import handed_over_ns
from gradwire.traces.recognition.operations import operations
from tests.made_messages import table

SAMPLE = Path(__file__).parents[2] / "traces" / "samples" / "ddp_gloo_8"


@pytest.fixture(scope="module")
def messages() -> Messages:
    return open_trace([SAMPLE]).messages


def test_announced_data_that_never_came_makes_a_collective_a_part(messages: Messages) -> None:
    last = ((messages.tag == 7) & messages.is_data).nonzero()[0][-1:]
    cut = messages.where([i for i in range(len(messages)) if i not in last])  # type: ignore[arg-type]
    found, notes = operations(cut, all_visible=True)
    assert 7 not in {o.tag for o in found if o.kind == "allreduce"}
    assert notes == ["left out, cut by the capture's ends: allreduce tag 7"]


def test_what_is_no_allreduce_and_no_broadcast_stays_message_by_message(messages: Messages) -> None:
    others = [o for o in operations(messages, all_visible=True)[0] if o.kind == "message"]
    assert {(o.what, o.tag, o.nbytes) for o in others} == {("allgather", 0, 4)}
    assert len(others) == 112


def test_gloos_own_ring_and_tree_are_usual(messages: Messages) -> None:
    found, notes = operations(messages, all_visible=True)
    assert all(operation.is_usual for operation in found)
    assert notes == []


def test_an_allreduce_with_other_partners_is_noted_since_as_captured_cannot_repeat_it(
    messages: Messages,
) -> None:
    turned = replace(messages, dst=messages.dst.copy(), src=messages.src.copy())
    of_tag_6 = messages.tag == 6
    turned.src[of_tag_6] = (8 - messages.src[of_tag_6]) % 8  # the same ring, the other way round
    turned.dst[of_tag_6] = (8 - messages.dst[of_tag_6]) % 8
    found, notes = operations(turned, all_visible=True)
    assert {o.tag for o in found if not o.is_usual} == {6}
    assert notes == [
        "other sends than gloo's ring or tree, which as-captured replays in their place: allreduce 6"
    ]


@pytest.mark.parametrize(
    ("socket_nbytes", "taken_ns"),
    [
        (None, [1000, 1000, 1000 + 9000]),  # what a MiB holds at once, of the rest the end
        (120_000, [1000, 1000 + 8000, 1000 + 9000]),  # 100,000 are held: at 80 and 95 % of 10 us
        (12_000_000, [1000, 1000, 1000]),
    ],
)
def test_a_send_is_over_when_all_but_what_the_socket_holds_has_arrived(
    socket_nbytes: int | None, taken_ns: list[int]
) -> None:
    """Its last byte leaves at 9 us: later than that the kernel cannot have taken it."""
    rows = [
        (0, 1, nbytes, 1000, 1000 + 9000, 1000 + 10_000, "allreduce")
        for nbytes in (50_000, 500_000, 2_000_000)
    ]
    assert handed_over_ns(replace(table(2, rows), socket_nbytes=socket_nbytes)).tolist() == taken_ns
