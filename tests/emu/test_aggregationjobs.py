"""Which aggregation jobs have slots at a switch, against a plain list of its entries."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradwire.emu.switch.table.aggregationjobs import AggregationJobs, SharedSlots
from gradwire.emu.switch.table.numbers import Numbers, TableFullError
from gradwire.emu.switch.table.planeoperations import Operation, RemovePool, RemoveRule, SetPool, SetRule
from gradwire.emu.switch.table.table import FlowTable, Selection
from gradwire.planning.openflow.entries import Actions, Aggregate, Entry, FlowGone, Gone, Output, ToGroup
from gradwire.planning.openflow.match import Match

N_POOLS, SWITCH_SLOTS, SMALL, LARGE = 3, 10, 12, 7
MATCHES = tuple(
    Match(in_port=port, eth_type=0x800, ip_proto=17, dport=0xBEE0 + job)
    for port in (1, 2)
    for job in range(3)
)
PRIORITIES = (1, 2)
OUT = Actions((Output(1),))


def job_of(match: Match) -> int:
    assert match.dport is not None
    return match.dport - 0xBEE0


def rule(match: Match) -> Aggregate:
    """Job n has 2 (n + 1) slots; the odd ones have large packets."""
    job = job_of(match)
    assert match.in_port is not None
    elements = 2048 if job % 2 else 256
    return Aggregate(job, 0, match.in_port - 1, 2 * (job + 1), elements, None, (1, 2), 0b11, 0b11)


def entry(match: Match, priority: int, adds: bool) -> Entry:
    return Entry(match, priority, Actions((rule(match),)) if adds else OUT, 0, 0, 0, 0)


@dataclass
class DataPlane:
    """What is in force; refuses a rule whose pool is not there, and to lose a pool that a rule uses."""

    rules: dict[Match, SetRule] = field(default_factory=dict)
    pools: dict[int, Aggregate] = field(default_factory=dict)

    def obey(self, operation: Operation | FlowGone) -> None:
        match operation:
            case SetPool():
                assert operation.pool not in self.pools
                self.pools[operation.pool] = operation.rule
            case RemovePool():
                assert operation.pool not in [rule.pool for rule in self.rules.values()]
                del self.pools[operation.pool]
            case SetRule(actions=(Aggregate() as adds,)):
                assert operation.pool is not None
                assert self.pools[operation.pool]._replace(child=adds.child) == adds
                self.rules[operation.match] = operation
            case SetRule():
                assert operation.pool is None
                self.rules[operation.match] = operation
            case RemoveRule():
                del self.rules[operation.match]


Step = tuple[str, Match, int]
STEPS = st.lists(
    st.tuples(
        st.sampled_from(
            ("add", "add", "add", "add", "plain", "delete", "delete all of it", "modify", "expire")
        ),
        st.sampled_from(MATCHES),
        st.sampled_from(PRIORITIES),
    ),
    min_size=3,
    max_size=20,
)


@dataclass
class Plain:
    """One switch's entries: True if the entry adds up."""

    entries: dict[tuple[Match, int], bool] = field(default_factory=dict)

    def jobs(self) -> dict[int, Aggregate]:
        return {
            job_of(match): rule(match)._replace(child=0) for (match, _), adds in self.entries.items() if adds
        }

    def slots(self, elements: int | None = None) -> int:
        return sum(each.slots for each in self.jobs().values() if elements in (None, each.elements))

    def step(self, what: str, match: Match, priority: int) -> None:
        key = match, priority
        if what in ("add", "plain"):
            self.entries[key] = what == "add"
        elif what == "modify" and key in self.entries:
            self.entries[key] = False
        elif what in ("delete", "expire"):
            self.entries.pop(key, None)
        elif what == "delete all of it":
            self.entries = {each: adds for each, adds in self.entries.items() if each[0] != match}


def operations(table: FlowTable, what: str, match: Match, priority: int) -> Iterator[Operation | FlowGone]:
    one = Selection(match, priority)
    match what:
        case "add" | "plain":
            yield from table.add(entry(match, priority, what == "add"), reset_counts=False)
        case "delete":
            yield from table.delete(one)
        case "delete all of it":
            yield from table.delete(Selection(match))
        case "modify":
            yield from table.modify(one, OUT, reset_counts=False)
        case _:
            yield from table.remove(table.entries(one), Gone.IDLE)


@given(STEPS, STEPS)
def test_a_job_has_its_slots_as_long_as_it_has_an_entry(mine: list[Step], its: list[Step]) -> None:
    shared = SharedSlots(Numbers(N_POOLS), SMALL, LARGE)
    tables = [FlowTable(Numbers(99), Numbers(1), AggregationJobs(shared, SWITCH_SLOTS)) for _ in range(2)]
    plains, plane = [Plain(), Plain()], DataPlane()
    planes = [plane, DataPlane(pools=plane.pools)]
    for number, step in [(0, step) for step in mine] + [(1, step) for step in its]:
        wanted = rule(step[1])
        is_new = step[0] == "add" and wanted.job not in plains[number].jobs()
        both = plains[0].slots(wanted.elements) + plains[1].slots(wanted.elements)
        fits = (
            plains[number].slots() + wanted.slots <= SWITCH_SLOTS
            and both + wanted.slots <= (LARGE if wanted.elements == 2048 else SMALL)
            and len(plane.pools) < N_POOLS
        )
        if is_new and not fits:
            before = dict(plane.pools), len(tables[number])
            with pytest.raises(TableFullError):
                list(operations(tables[number], *step))
            assert (plane.pools, len(tables[number])) == before
            continue
        for operation in operations(tables[number], *step):
            planes[number].obey(operation)
        plains[number].step(*step)
        expected = [rule for plain in plains for rule in plain.jobs().values()]
        assert sorted(each._replace(child=0) for each in plane.pools.values()) == sorted(expected)
        assert {job: held.rule._replace(child=0) for job, held in tables[number].jobs.held.items()} == plains[
            number
        ].jobs()


def test_an_entry_that_gets_other_actions_frees_the_slots_of_its_job() -> None:
    table = FlowTable(Numbers(9), Numbers(1))
    table.add(entry(MATCHES[0], 1, adds=True), reset_counts=False)
    changes = list(table.modify(Selection(MATCHES[0], 1), OUT, reset_counts=False))
    assert [type(each) for each in changes] == [SetRule, RemovePool]
    assert table.jobs.held == {}


def test_a_fabric_without_a_pool_left_refuses_the_next_job_and_takes_it_when_one_has_gone() -> None:
    shared = SharedSlots(Numbers(1))
    one, other = (FlowTable(Numbers(9), Numbers(1), AggregationJobs(shared)) for _ in range(2))
    one.add(entry(MATCHES[0], 1, adds=True), reset_counts=False)
    with pytest.raises(TableFullError):
        other.add(entry(MATCHES[0], 1, adds=True), reset_counts=False)
    assert len(other) == 0
    list(one.delete(Selection()))
    assert isinstance(other.add(entry(MATCHES[0], 1, adds=True), reset_counts=False)[0], SetPool)


def test_the_same_entry_again_leaves_the_slots_alone() -> None:
    table = FlowTable(Numbers(9), Numbers(1))
    first = table.add(entry(MATCHES[0], 1, adds=True), reset_counts=False)
    again = table.add(entry(MATCHES[0], 1, adds=True), reset_counts=True)
    assert [type(each) for each in first] == [SetPool, SetRule]
    assert not any(isinstance(each, (SetPool, RemovePool)) for each in again)


def test_an_entry_in_the_shadow_of_another_keeps_the_slots_and_comes_back_with_them() -> None:
    table = FlowTable(Numbers(9), Numbers(1))
    (pool, _) = table.add(entry(MATCHES[0], 1, adds=True), reset_counts=False)
    above = table.add(entry(MATCHES[0], 2, adds=False), reset_counts=False)
    assert [type(each) for each in above] == [SetRule]
    (back,) = table.delete(Selection(MATCHES[0], 2))
    assert isinstance(pool, SetPool)
    assert isinstance(back, SetRule)
    assert (back.priority, back.pool) == (1, pool.pool)


def test_a_full_table_takes_no_slots_for_the_entry_that_it_refuses() -> None:
    table = FlowTable(Numbers(0), Numbers(1))
    with pytest.raises(TableFullError):
        table.add(entry(MATCHES[0], 1, adds=True), reset_counts=False)
    assert table.jobs.held == {}


def test_no_output_and_no_group_selects_an_entry_that_adds_up() -> None:
    table = FlowTable(Numbers(9), Numbers(9))
    table.add(entry(MATCHES[0], 1, adds=True), reset_counts=False)
    assert table.entries(Selection(out_port=1)) == []
    assert table.entries(Selection(out_group=ToGroup(1).group)) == []


def test_a_switch_without_slots_adds_nothing_up() -> None:
    table = FlowTable(Numbers(9), Numbers(1), AggregationJobs(SharedSlots(), 0))
    with pytest.raises(TableFullError, match="needs 2 slots, and fewer are left"):
        table.add(entry(MATCHES[0], 1, adds=True), reset_counts=False)
