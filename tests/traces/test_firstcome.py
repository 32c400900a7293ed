"""Captures of servers that answer who comes first give workloads with locks in place of that order."""

from gradwire.traces.recognition.firstcome import without_order_of_arrival
from gradwire.traces.schedules.pushes import first_come_servers
from gradwire.traces.workload import Compute, Item, Message, Start

SERVER, OTHER = 0, 9


def push(worker: int, after: tuple[int, ...], ready: tuple[int, ...] | None, server: int = SERVER) -> Message:
    start = Start(rank=worker, after=after)
    asked = None if ready is None else Start(rank=server, after=ready)
    return Message(src=worker, dst=server, nbytes=4000, role="push", start=start, ready=asked)


def pull(worker: int, *after: int, ready: tuple[int, ...] = (), server: int = SERVER) -> Message:
    start = Start(rank=server, after=after)
    asked = Start(rank=worker, after=ready)
    return Message(src=server, dst=worker, nbytes=4000, role="pull", start=start, ready=asked)


def computed(*after: int, rank: int = SERVER) -> Compute:
    return Compute(start=Start(rank=rank, after=after), duration_ns=5)


def captured(notices: bool = True) -> list[Item]:
    """Workers 1 and 2 in turn, twice; the server asks for each push when it has answered the one before."""
    asked = [(0,), (3,), (6,), (9,)] if notices else [None] * 4
    hello = Message(src=SERVER, dst=1, nbytes=8, start=Start(rank=SERVER))
    return [
        hello,
        push(1, (0,), asked[0]),
        computed(1),
        pull(1, 2, ready=(1,)),
        push(2, (), asked[1]),
        computed(3, 4),
        pull(2, 5, ready=(4,)),
        push(1, (3,), asked[2]),
        computed(6, 7),
        pull(1, 8, ready=(7,)),
        push(2, (6,), asked[3]),
        computed(9, 10),
        pull(2, 11, ready=(10,)),
    ]


def test_a_server_that_takes_one_push_at_a_time_gets_a_lock() -> None:
    items = without_order_of_arrival(captured())
    locks = {n: item.lock_until for n, item in enumerate(items) if isinstance(item, Message)}
    assert {n: until for n, until in locks.items() if until is not None} == {1: 3, 4: 6, 7: 9, 10: 12}
    assert first_come_servers(captured()) == (SERVER,)
    assert first_come_servers(items) == ()


def test_an_answer_waits_for_its_own_push_and_for_no_other() -> None:
    items = without_order_of_arrival(captured())
    assert [items[n].begins[0].after for n in (2, 5, 8, 11)] == [(1,), (4,), (7,), (10,)]
    assert [items[n].begins[0].after for n in (3, 6, 9, 12)] == [(2,), (5,), (8,), (11,)]


def test_all_pushes_wait_for_what_the_server_did_before_the_first() -> None:
    items = without_order_of_arrival(captured())
    pushes = [item for item in items if isinstance(item, Message) and item.role == "push"]
    assert [item.ready and item.ready.after for item in pushes] == [(0,)] * 4


def test_workers_wait_as_before() -> None:
    before, items = captured(), without_order_of_arrival(captured())
    for number in (1, 4, 7, 10):
        assert items[number].begins == before[number].begins


def test_a_push_without_an_answer_holds_the_lock_while_it_comes() -> None:
    items = without_order_of_arrival([*captured(), push(1, (9,), (12,))])
    last = items[-1]
    assert isinstance(last, Message)
    assert last.lock_until == 13


def test_an_answer_that_another_one_hid_waits_for_its_push_all_the_same() -> None:
    """The second answer began when the first had gone, which came after both pushes."""
    items = captured()
    items[5] = computed(3)
    assert without_order_of_arrival(items)[5].begins[0].after == (4,)


def test_a_worker_receives_an_answer_whatever_its_other_server_does() -> None:
    """Both servers' answers were asked for when both pushes had been begun; held back, they could wait for
    each other for ever.
    """
    items: list[Item] = []
    for worker in (1, 2, 1, 2):
        n = len(items)
        items += [
            push(worker, (), (n - 2,) if n else ()),
            push(worker, (), (n - 1,) if n else (), OTHER),
            pull(worker, n, ready=(n, n + 1)),
            pull(worker, n + 1, ready=(n, n + 1), server=OTHER),
        ]
    found = without_order_of_arrival(items)
    pulls = [(n, item) for n, item in enumerate(found) if isinstance(item, Message) and item.role == "pull"]
    assert [item.ready and item.ready.after for _, item in pulls] == [(n - 2,) for n, _ in pulls]


def test_without_notices_nothing_says_that_it_takes_one_at_a_time() -> None:
    items = captured(notices=False)
    assert without_order_of_arrival(items) == items
    assert first_come_servers(items) == (SERVER,)


def test_a_synchronous_server_has_no_lock() -> None:
    items: list[Item] = [push(1, (), ()), push(2, (), ()), pull(1, 0, 1), pull(2, 2)]
    items += [push(1, (2,), (2, 3)), push(2, (3,), (2, 3)), pull(1, 4, 5), pull(2, 6)]
    assert without_order_of_arrival(items) == items
