"""What programs beside a run used: read of /proc, of processes that a test starts itself."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from gradwire.emu.disturbance import Reason, disturbances, of_each_kind
from gradwire.emu.otherprograms import (
    NO_TICKS,
    OUTSIDE,
    Reading,
    Ticks,
    Use,
    hidden_ticks,
    parse_stat,
    program_name,
    read_with_beside,
    reading,
    share_beside,
    used,
)

# proc_pid_stat(5): number, name, state, …, flags, four faults, utime, stime, …, start
STAT = b"42 (a) b (c) R 1 42 42 0 -1 %d 0 0 0 0 700 50 3 4 20 0 1 0 98765 1000 10"


def test_a_name_with_brackets_and_blanks_does_not_move_the_fields() -> None:
    assert parse_stat(STAT % 0) == (98765, Ticks(750, 703, 757))


def test_the_kernels_own_threads_are_not_other_programs() -> None:
    assert parse_stat(STAT % 0x00200000) == (98765, None)


@pytest.mark.parametrize(
    ("command", "words", "name"),
    [
        ("cc1plus", ["/usr/lib/cc1plus", "-O2"], "cc1plus"),
        ("python3", ["python3", "-u", "/home/me/train.py", "-x"], "python3 train.py"),
        ("python3", ["python3", "-m", "pytest", ""], "python3 pytest"),
        ("bash", ["bash", ""], "bash"),
        ("bash", ["bash", "-c", "mysql -psecret"], "bash"),
        ("perl", ["perl", "-w", "-e", "secret", "x.pl"], "perl"),
        (
            "python",
            ["python", "-I", "/x/emu/interpreter.py", "gradwire.emu.replay", "run"],
            "python gradwire.emu.replay",
        ),
    ],
)
def test_of_an_interpreter_what_it_runs_is_named(command: str, words: list[str], name: str) -> None:
    assert program_name(command, words) == name


def test_a_name_is_one_short_line_whatever_a_program_calls_itself() -> None:
    assert program_name("a\nb\x1b[2J", []) == "a?b?[2J"
    long = program_name("python3", ["python3", "/tmp/" + 200 * "x"])
    assert long == "python3 " + 31 * "x" + "…"


@pytest.fixture
def proc() -> Iterator[int]:
    descriptor = os.open("/proc", os.O_RDONLY | os.O_DIRECTORY)
    yield descriptor
    os.close(descriptor)


def test_what_a_process_used_between_two_readings_is_its_own_time(proc: int) -> None:
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as busy:
        before = reading(proc)
        time.sleep(0.5)
        after = reading(proc)
        times = os.times()
        busy.kill()
        busy.wait()
    (key,) = (key for key in after.ticks if key[0] == busy.pid)
    ticks = after.ticks[key].ticks - before.ticks.get(key, NO_TICKS).ticks
    assert 1 <= ticks <= (os.times().elapsed - times.elapsed + 1.0) * os.sysconf("SC_CLK_TCK")


def test_programs_of_this_namespace_are_not_other_ones(proc: int, monkeypatch: pytest.MonkeyPatch) -> None:
    mine = next(key for key in reading(proc).ticks if key[0] == os.getpid())
    before, after = Reading(0, 0, {mine: Ticks(0, 0, 0)}), Reading(100, 60, {mine: Ticks(60, 60, 60)})
    assert used(proc, before, after) == ()
    monkeypatch.setattr("os.readlink", lambda path, dir_fd=None: str(dir_fd))
    ((use),) = used(proc, before, after)
    assert use.share == pytest.approx(0.6)


def beside(before: dict[int, Ticks], after: dict[int, Ticks]) -> float:
    """Of 1,000 ticks; all processes, by their number, are beside this namespace."""
    first, last = ({(pid, 7): ticks for pid, ticks in each.items()} for each in (before, after))
    return share_beside((Reading(0, 0, first), frozenset(first)), (Reading(1000, 0, last), frozenset(last)))


def test_all_programs_beside_count_also_those_that_have_ended() -> None:
    had = {1: Ticks(100, 0, 500), 3: Ticks(50, 0, 50)}
    assert beside(had, had | {1: Ticks(130, 0, 530)}) == 0.03
    assert beside(had, {1: Ticks(100, 0, 700)}) == 0.15  # a child of 200 ticks, of which 50 were before
    assert beside(had, {1: Ticks(130, 0, 530)}) == 0.03  # one that nobody waited for hides nobody else
    assert beside({}, {1: Ticks(40, 0, 60)}) == 0.06


def test_programs_outside_a_container_are_beside_and_those_of_this_namespace_are_not(proc: int) -> None:
    assert share_beside((container(0), frozenset()), (container(1000), frozenset())) == 1
    found, others = read_with_beside(proc)
    assert found.ticks
    assert os.getpid() not in {pid for pid, _ in others}


def test_what_a_program_used_that_has_ended_is_with_who_waited_for_it(proc: int) -> None:
    mine = next(key for key in reading(proc).ticks if key[0] == os.getpid())
    before = reading(proc).ticks[mine]
    subprocess.run([sys.executable, "-c", SPIN], check=True)
    after = reading(proc).ticks[mine]
    assert after.with_children - before.with_children >= 0.2 * HZ  # each of its ticks may lack its last part


HZ = os.sysconf("SC_CLK_TCK")
SPIN = "import time\nwhile time.process_time() < 0.3: pass"


def container(user_ticks: int, **ticks: Ticks) -> Reading:
    """A reading in a container, of 1,000 ticks for each 1,000 in user mode; processes by their number."""
    processes = {(int(name[1:]), 7): each for name, each in ticks.items()}
    return Reading(user_ticks, user_ticks, processes, is_whole=False)


@pytest.mark.parametrize(
    ("after", "hidden"),
    [
        (container(1000, p999999=Ticks(300, 250, 250)), 750),
        (container(1000, p999999=Ticks(300, 250, 250), p999998=Ticks(800, 750, 750)), 0),
        (container(1000, p999999=Ticks(300, 1300, 1300)), 0),  # of a child that had used much of it before
        (replace(container(1000), is_whole=True), 0),
    ],
)
def test_what_nobody_in_a_container_used_was_used_outside(after: Reading, hidden: int, proc: int) -> None:
    assert hidden_ticks(container(0), after) == hidden
    outside = (Use(OUTSIDE, hidden / 1000),) if hidden else ()
    assert used(proc, container(0), after) == outside


def test_what_was_used_before_the_first_reading_does_not_count() -> None:
    before = container(5000, p1=Ticks(2000, 1500, 1500))
    assert hidden_ticks(before, container(6000, p1=Ticks(2600, 2000, 2000))) == 500


def test_where_the_kernels_threads_can_be_seen_nothing_is_hidden(proc: int) -> None:
    assert reading(proc).is_whole == (Path("/proc/2/comm").read_text() == "kthreadd\n")


def busy(*others: Use) -> tuple[Reason, ...]:
    return disturbances(
        time_s=1.0,
        cpu_idle=0.02,
        cpu_stolen=0.0,
        stall_s=0.0,
        softnet_dropped=0,
        others=others,
    )


def reasons(*others: Use) -> list[str]:
    return [str(reason) for reason in busy(*others)]


def test_who_used_the_processors_is_named_where_others_did() -> None:
    assert reasons(Use("cc1plus", 0.41), Use("python3 {}.py", 0.2), Use("x", 0.04)) == [
        (
            "CPU idle only 2%, as other programs used 65%: stop them, or try later "
            "(cc1plus 41%, python3 {}.py 20%, x 4%)"
        )
    ]
    assert reasons(Use("top", 0.04)) == ["CPU idle only 2%: use a lower rate or fewer hosts"]


def test_repeats_with_different_programs_are_one_reason_with_the_span_of_each() -> None:
    repeats = busy(Use("a", 0.4), Use("b", 0.2)), busy(Use("b", 0.3)), busy(Use("c", 0.9), Use("d", 0.05))
    assert of_each_kind(reason for repeat in repeats for reason in repeat) == [
        (
            "CPU idle only 2%, as other programs used 30 to 95%: stop them, or try later "
            "(c 90%, a 40%, b 20 to 30% and 1 more)"
        )
    ]
