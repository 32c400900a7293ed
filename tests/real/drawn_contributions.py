"""Jobs and packets that Hypothesis draws for the aggregation of one switch."""

from random import Random
from typing import NamedTuple

from hypothesis import strategies as st

from gradwire.planning.openflow.entries import FROM_PARENT, Aggregate
from gradwire.planning.openflow.pool import LEAST, MOST, Pool
from gradwire.traces.framing.aggregation import Header, PacketKind
from tests.real.aggregation_bench import contribution

JOB, EPOCH = 77, 3
PARENT_PORT = 5
NUMBERS = (0, 1, -1, 12345, MOST, LEAST, MOST - 5, LEAST + 5)


class Step(NamedTuple):
    """A packet to come: `who` mod the number of neighbours, `ahead` of the first chunk that is not done."""

    who: int
    ahead: int
    oddity: int
    kind: int
    number: int
    padding: int


STEPS = st.lists(
    st.builds(
        Step,
        who=st.integers(0, 4),
        ahead=st.sampled_from([0] * 8 + [1] * 4 + [-1, -2, 2, 3, 4, 5, 7]),
        oddity=st.integers(0, 24),
        kind=st.sampled_from(
            [PacketKind.RESULT] * 6 + [PacketKind.STATUS, PacketKind.EPOCH, PacketKind.CONTRIBUTION, 9]
        ),
        number=st.integers(0, 1 << 20),
        padding=st.sampled_from([0, 0, 0, 1, 18]),
    ),
    min_size=1,
    max_size=50,
)
RULES = st.builds(
    lambda n, slots, elements, is_root, gives, takes: Aggregate(
        JOB,
        EPOCH,
        0,
        slots,
        elements,
        None if is_root else PARENT_PORT,
        tuple(range(1, n + 1)),
        gives & (1 << n) - 1,
        takes & (1 << n) - 1,
    ),
    n=st.integers(1, 4),
    slots=st.integers(1, 3),
    elements=st.sampled_from([1, 7, 8, 64, 256, 300]),
    is_root=st.booleans(),
    gives=st.sampled_from([15, 15, 7, 5, 0]),
    takes=st.sampled_from([15, 15, 14, 10, 0]),
)


def first_undone(pool: Pool) -> int:
    done = {version.chunk for slot in pool.slots for version in slot if version.is_done}
    begun = [version.chunk for slot in pool.slots for version in slot if version.chunk is not None]
    return min((chunk for chunk in begun if chunk not in done), default=max(begun, default=-1) + 1)


def packet(pool: Pool, step: Step) -> tuple[int, Header, tuple[int, ...], bytes]:
    """(child, header, elements) for the model, and the frame; hosts mostly send what is due."""
    n = len(pool.rule.ports)
    neighbours = n + (not pool.is_root)
    child = step.who % neighbours
    if child == n:
        child = FROM_PARENT
    random = Random(step.number)
    chunk = max(first_undone(pool) + step.ahead, 0)
    has_elements = bool(pool.rule.takes if child == FROM_PARENT else pool.rule.gives >> child & 1)
    count = 0 if step.oddity == 1 else pool.rule.elements * has_elements
    count += {2: 1, 3: -1}.get(step.oddity, 0) * bool(count)
    kind = step.kind if child == FROM_PARENT or step.oddity == 4 else PacketKind.CONTRIBUTION
    header = Header(
        kind,
        JOB + (step.oddity == 5),
        EPOCH + {6: 1, 7: -1}.get(step.oddity, 0),
        count,
        (1 << 32) - 1 if step.oddity == 8 else chunk,
        random.choice(NUMBERS),
        random.getrandbits(64),
        version=1 + (step.oddity == 9),
    )
    elements = tuple(random.choice(NUMBERS) for _ in range(header.n_elements))
    frame = contribution(header, elements) + bytes(step.padding)
    if step.oddity == 10:  # an element that is not announced
        elements = (*elements, 5)
        frame = contribution(header, elements)
    elif step.oddity == 11 and elements:  # one that is announced, and not there
        elements = elements[:-1]
        frame = contribution(header, elements)
    return child, header, elements, frame
