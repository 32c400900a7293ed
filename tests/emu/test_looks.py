"""Looks at a network: rates from counters, cables from the controller's log, both made up here."""

import json
import threading
from pathlib import Path
from typing import Any

import pytest

from gradwire.emu import looks as looking
from gradwire.emu.channel import channel, receive
from gradwire.emu.kernel.queues import Transmitted
from gradwire.emu.looks import Looks, Tail, watched
from gradwire.emu.replay.board import Board
from gradwire.planning.fabrics.spec import parse_fabric

FABRIC = parse_fabric("star:hosts=2,rate=100M")
NAMES = [f"{egress.node}-eth{egress.port}" for egress in FABRIC.rates]
SECOND_NS = 10**9


class FakeQueues:
    """Counters of every port, which a test sets."""

    counters: dict[str, Transmitted]

    def __init__(self, pids: Any) -> None:
        del pids

    def counted(self) -> dict[str, Transmitted]:
        return dict(FakeQueues.counters)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The time in ns, in a list to be changed; and counters at 0."""
    now_ns = [7 * SECOND_NS]
    FakeQueues.counters = {name: Transmitted(0, 1000, 5) for name in NAMES}
    monkeypatch.setattr(looking, "Queues", FakeQueues)
    monkeypatch.setattr("time.monotonic_ns", lambda: now_ns[0])
    return now_ns


def looks_at(folder: Path, board: Board | None = None) -> Looks:
    log = folder / "control.jsonl"
    log.touch()
    return Looks(FABRIC, {}, log, board)


def test_a_links_rate_is_its_bytes_since_the_last_look_over_that_time(
    tmp_path: Path, clock: list[int]
) -> None:
    looks = looks_at(tmp_path)
    FakeQueues.counters[NAMES[1]] = Transmitted(10, 1000 + 250_000, 5, queued_nbytes=3000)
    clock[0] += SECOND_NS // 4
    assert looks.look()["links"] == [[1, 8_000_000, 3000, 0]]  # 250 kB in a quarter of a second
    clock[0] += SECOND_NS
    assert looks.look()["links"] == [[1, 0, 3000, 0]]
    FakeQueues.counters[NAMES[1]] = Transmitted(10, 1000 + 250_000, 9)
    FakeQueues.counters[NAMES[2]] = Transmitted(10, 1000 + 125, 5)
    clock[0] += SECOND_NS
    look = looks.look()
    assert look["links"] == [[1, 0, 0, 4], [2, 1000, 0, 0]]  # dropped since the first look
    assert look["t_s"] == 2.25


def test_a_port_that_is_not_shaped_is_left_out(tmp_path: Path, clock: list[int]) -> None:
    del FakeQueues.counters[NAMES[0]]
    looks = looks_at(tmp_path)
    clock[0] += SECOND_NS
    assert looks.look()["links"] == []


def test_a_cable_is_down_both_ways_from_port_down_to_port_up(tmp_path: Path, clock: list[int]) -> None:
    looks = looks_at(tmp_path)
    switch = FABRIC.switches[0]
    lines = [{"time_ns": clock[0] + 5 * 10**8, "event": "port_down", "switch": switch, "port": 1}]
    with (tmp_path / "control.jsonl").open("a") as log:
        log.write(json.dumps(lines[0]) + "\n" + '{"time_ns": 1, "eve')
    look = looks.look()
    both = {number for number, name in enumerate(NAMES) if name in (f"{switch}-eth1", "h0-eth0")}
    assert set(look["down"]) == both
    assert look["moves"] == [{**lines[0], "t_s": 0.5}]
    with (tmp_path / "control.jsonl").open("a") as log:
        log.write('nt": "settled"}\n')
        log.write(json.dumps(lines[0] | {"event": "port_up"}) + "\n")
    looks.taken()
    look = looks.look()
    assert look["down"] == []
    assert [move["event"] for move in look["moves"]] == ["settled", "port_up"]


def test_moves_are_said_again_until_a_look_has_arrived(tmp_path: Path, clock: list[int]) -> None:
    looks = looks_at(tmp_path)
    (tmp_path / "control.jsonl").write_text('{"time_ns": 1, "event": "settled"}\n')
    assert [len(looks.look()["moves"]), len(looks.look()["moves"])] == [1, 1]
    looks.taken()
    assert looks.look()["moves"] == []


def test_how_far_ranks_are_is_what_they_wrote_on_the_board(tmp_path: Path, clock: list[int]) -> None:
    board = Board(3)
    for rank in range(3):
        board.place(rank).begin(n_ops=10 * rank, n_to_move=100 * rank)
    board.place(2).write(n_done=7, n_under_way=2, n_moved=70)
    ranks = looks_at(tmp_path, board).look()["ranks"]
    assert ranks == [[0, 0, 0, 0, 0], [0, 10, 0, 0, 100], [7, 20, 2, 70, 200]]
    board.place(2).begin(n_ops=20, n_to_move=200)
    assert board.read()[2] == [0, 20, 0, 0, 200]


def test_the_log_is_not_read_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("x\n")
    (tmp_path / "control.jsonl").symlink_to(tmp_path / "secret")
    with pytest.raises(OSError, match="symbolic links"):
        Tail(tmp_path / "control.jsonl").lines()


def test_looks_come_as_long_as_it_lasts_and_a_network_that_is_gone_ends_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    FakeQueues.counters = {}
    monkeypatch.setattr(looking, "Queues", FakeQueues)
    monkeypatch.setattr(looking, "LOOK_S", 0.01)
    looks = looks_at(tmp_path)
    to, end = channel()
    before = threading.active_count()
    with watched(to, looks):
        kinds = [receive(end)["kind"] for _ in range(2)]  # type: ignore[index]
    assert kinds == ["load", "load"]
    assert threading.active_count() == before

    def gone() -> dict[str, Any]:
        raise OSError

    monkeypatch.setattr(looks, "look", gone)
    with watched(to, looks):
        pass
    to.close()
    end.close()


def test_the_costlier_a_look_the_rarer_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A look that takes 20 ms of a processor is followed by 2 s: a hundredth."""
    FakeQueues.counters = {}
    monkeypatch.setattr(looking, "Queues", FakeQueues)
    looks = looks_at(tmp_path)
    to, end = channel()
    pauses_s: list[float] = []
    used_s = iter([0.0, 0.02, 1.0, 1.001])
    monkeypatch.setattr("time.thread_time", lambda: next(used_s))

    class Over:
        def wait(self, pause_s: float) -> bool:
            pauses_s.append(pause_s)
            return len(pauses_s) > 2

    looking._send_looks(to, looks, Over())  # type: ignore[arg-type]
    assert pauses_s == [0.25, 2.0, 0.25]
    to.close()
    end.close()
