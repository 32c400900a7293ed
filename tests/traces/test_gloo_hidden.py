"""Hidden preambles: what is recovered must be what was sent."""

import shutil
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradwire.traces.framing import gloo_ways
from gradwire.traces.framing.frames import Frame, MessageKind
from gradwire.traces.framing.gloo import PREAMBLE_NBYTES, Opcode, pack_slot
from gradwire.traces.framing.gloo_framing import Gloo
from gradwire.traces.framing.gloo_hidden import Recovered, recover
from gradwire.traces.packets.directions import Direction
from gradwire.traces.reader import open_trace
from tests.made_gloo import DOWN, Sent, conversation, decoded_in, found_in

INDEXED = Path(__file__).parents[1] / "captures" / "ddp_4_mlp_star20M_indexed"
NO_INDEX = shutil.ignore_patterns("*.messages")
DATA, SEND, RECV = Opcode.DATA, Opcode.SEND_READY, Opcode.RECV_READY
FIVE, SIX = pack_slot(4, 5), pack_slot(4, 6)


def sent(found: Recovered) -> Counter[tuple[Opcode, int, int]]:
    return Counter((f.opcode, f.slot, f.length) for f in found.frames)


def frames_of(folder: Path) -> dict[Direction, tuple[Frame, ...]]:
    """What gloo's framing reads in a folder of captures."""
    connections = [choice.connection for choice in open_trace([folder]).choices]
    return {reading.stream.direction: reading.frames for reading in Gloo().read(connections).readings}


def transfer(slot: int, length: int) -> tuple[list[Sent], list[Sent]]:
    return [Sent(SEND, slot, length), Sent(DATA, slot, length)], [Sent(RECV, slot, length)]


def test_data_that_was_announced_is_found_in_the_gap(tmp_path: Path) -> None:
    first, ready = transfer(FIVE, 1000)
    down = [[*first, Sent(SEND, FIVE, 1000)], [Sent(DATA, FIVE, 1000)]]
    packets = conversation(tmp_path / "a.pcap", down, [ready, ready], visible=48, up_first=True)
    found = found_in(packets)[DOWN]
    assert sent(found) == {(SEND, FIVE, 1000): 2, (DATA, FIVE, 1000): 2}
    assert found.unresolved == ()
    assert sum(f.recovered for f in found.frames) == 2


def test_a_slot_of_which_nothing_is_sent_or_asked_for_hides_nothing(tmp_path: Path) -> None:
    """Damaged bytes read as a preamble of another kind: no capture of gloo's collectives has one."""
    first, ready = transfer(FIVE, 1000)
    down = [[Sent(Opcode.SEND_BUFFER, 0, 0), *first], [Sent(SEND, FIVE, 1000), Sent(DATA, FIVE, 1000)]]
    packets = conversation(tmp_path / "a.pcap", down, [ready, ready], visible=48, up_first=True)
    assert (Opcode.SEND_BUFFER, 0, 0) in sent(found_in(packets)[DOWN])


def test_two_payloads_in_one_gap_are_told_apart_by_their_sizes(tmp_path: Path) -> None:
    a, a_ready = transfer(FIVE, 1000)
    b, b_ready = transfer(FIVE, 700)
    packets = conversation(
        tmp_path / "a.pcap",
        [[*a, *b], [Sent(SEND, SIX, 9)]],
        [a_ready, b_ready],
        visible=48,
        up_first=True,
    )
    found = found_in(packets)[DOWN]
    assert sent(found) == Counter([*a, *b, Sent(SEND, SIX, 9)])


def test_two_slots_whose_order_nothing_shows_are_named_only_if_their_places_are_near(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    a, a_ready = transfer(FIVE, 1000)
    b, b_ready = transfer(SIX, 700)
    down = [[Sent(SEND, 1, 1), *a, *b], [Sent(SEND, 1, 1)]]
    packets = conversation(tmp_path / "a.pcap", down, [a_ready, b_ready], visible=48, up_first=True)
    named = [f for f in found_in(packets)[DOWN].frames if f.opcode is DATA]
    assert sorted((f.slot, f.length) for f in named) == sorted((t.slot, t.length) for t in (a[-1], b[-1]))
    monkeypatch.setattr(gloo_ways, "MAX_SPREAD_SEGMENTS", 0)
    found = found_in(packets)[DOWN]
    assert not [f for f in found.frames if f.opcode is DATA]
    assert sum(gap.end - gap.start for gap in found.unresolved) >= 1048 + 748


def test_what_nothing_explains_stays_unresolved_with_its_place(tmp_path: Path) -> None:
    a, _ = transfer(FIVE, 1000)
    packets = conversation(
        tmp_path / "a.pcap", [[Sent(SEND, SIX, 1), *a[1:]], [Sent(SEND, SIX, 1)]], [], visible=48
    )
    found = found_in(packets)[DOWN]
    assert [(gap.start, gap.end) for gap in found.unresolved] == [(56, 56 + 1048)]
    assert sent(found) == {(SEND, SIX, 1): 2}


MARK = Sent(SEND, 1, 1)
SMALL, LARGE = Sent(DATA, FIVE, 48), Sent(DATA, SIX, 96)
# Two payloads of 48 bytes take as much of the stream, 192 bytes, as a notice and a payload of 96.
ALIKE = [[MARK, SMALL, SMALL], [MARK, Sent(SEND, SIX, 96), LARGE], [MARK]]
ANNOUNCED = [[Sent(SEND, FIVE, 48)], [Sent(SEND, FIVE, 48)]]
READY = [[Sent(RECV, FIVE, 48)], [Sent(RECV, FIVE, 48)], [Sent(RECV, SIX, 96)]]


def test_two_different_ways_to_fill_a_gap_are_no_answer(tmp_path: Path) -> None:
    down = [*ANNOUNCED, [MARK], [MARK], *ALIKE]  # all receivers are ready before either gap
    found = found_in(conversation(tmp_path / "a.pcap", down, READY, visible=48))[DOWN]
    assert [f for f in found.frames if f.opcode is DATA] == []
    assert [gap.end - gap.start for gap in found.unresolved] == [192, 192]


def test_data_is_not_looked_for_before_its_receiver_was_ready(tmp_path: Path) -> None:
    down = [*ANNOUNCED, *ALIKE]  # the receiver of the large one is ready only after the first gap
    found = found_in(conversation(tmp_path / "a.pcap", down, READY, visible=48))[DOWN]
    assert sent(found) == Counter(message for group in down for message in group)
    assert found.unresolved == ()


@given(
    sizes=st.lists(st.tuples(st.sampled_from([FIVE, SIX]), st.integers(100, 3000)), min_size=1, max_size=12),
    cuts=st.lists(st.integers(1, 4), min_size=30, max_size=30),
)
def test_recovered_data_was_sent_and_nothing_is_made_up(
    tmp_path_factory: pytest.TempPathFactory, sizes: Sequence[tuple[int, int]], cuts: Sequence[int]
) -> None:
    """Messages leave in packets of several, so that only the first of each packet can be read."""
    pairs = [transfer(slot, length) for slot, length in sizes]
    queue = [message for out, _ in pairs for message in out]
    down = []
    for cut in cuts:
        down.append(queue[:cut])
        queue = queue[cut:]
    path = tmp_path_factory.mktemp("hidden") / "a.pcap"
    packets = conversation(path, [d for d in down if d], [back for _, back in pairs], visible=48)
    found = found_in(packets)[DOWN]
    truth = Counter(message for out, _ in pairs for message in out)
    data = Counter({message: n for message, n in sent(found).items() if message[0] is DATA})
    true_data = Counter({message: n for message, n in truth.items() if message.opcode is DATA})
    assert data <= true_data
    assert found.unresolved or data == true_data


def calls_to_recover(path: Path, n_slots: int) -> int:
    """How many calls it takes to read as many slots as gaps, each of whose slots spans most of the stream."""
    slots = [pack_slot(8, number) for number in range(n_slots)]
    down = [
        [Sent(SEND, slot, 1000), Sent(DATA, slots[number * 7 % n_slots], 900)]
        for number, slot in enumerate(slots)
    ]
    up = [
        [Sent(RECV, slot, 1000), Sent(RECV, slots[number * 5 % n_slots], 1000)]
        for number, slot in enumerate(slots)
    ]
    down += [[Sent(SEND, slot, 1000)] for slot in slots]
    decoded = decoded_in(conversation(path, down, up, visible=48))
    assert all(len(one.gaps) == n_slots for one in decoded.values())
    calls = 0

    def count(_frame: object, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        recover(decoded)
    finally:
        sys.setprofile(None)
    return calls


def test_a_crafted_capture_takes_work_in_proportion_to_its_size(tmp_path: Path) -> None:
    few, many = (calls_to_recover(tmp_path / "a.pcap", n_slots) for n_slots in (100, 800))
    assert many - few < 700 * 2_000  # 24,000 for each slot more, when each was held against each gap


def test_what_is_recovered_of_a_real_job_is_what_its_index_shows(tmp_path: Path) -> None:
    """Four ranks on links of 20 Mb/s; the index holds every preamble that the 128 bytes of a packet hide."""
    shown, bare = frames_of(INDEXED), frames_of(shutil.copytree(INDEXED, tmp_path / "bare", ignore=NO_INDEX))
    assert sum(frame.recovered for frames in bare.values() for frame in frames) > 500
    assert not any(frame.recovered for frames in shown.values() for frame in frames)
    for direction, frames in shown.items():
        named = [(f.kind, f.operation, f.tag, f.payload_nbytes) for f in frames]
        assert Counter((f.kind, f.operation, f.tag, f.payload_nbytes) for f in bare[direction]) == Counter(
            named
        )
        data = [(f.offset, f.tag) for f in frames if f.kind is MessageKind.DATA]
        found = [(f.offset, f.tag) for f in bare[direction] if f.kind is MessageKind.DATA]
        for (true, tag), (offset, found_tag) in zip(data, found, strict=True):
            assert found_tag == tag
            assert abs(offset - true) <= 16 * PREAMBLE_NBYTES  # notices beside it may be in another order
