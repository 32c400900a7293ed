"""How a command ends: the exit code and the words for each kind of failure."""

import errno
import os
import subprocess
import sys
from types import SimpleNamespace

import pytest
import typer

from gradwire.planning.plan import BadPlan
from gradwire.tools.exits import guarded, one_line, report
from gradwire.traces.shortages import NO_MEMORY
from gradwire.traces.workload import BadWorkload, Compute, Start


def outcome(error: BaseException) -> int:
    """The exit code of a command that fails with `error`."""

    def command() -> None:
        raise error

    with pytest.raises(typer.Exit) as left:
        guarded(command)()
    return left.value.exit_code


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (ValueError("a fat-tree needs an even k, got 5"), "a fat-tree needs an even k, got 5"),
        (BadWorkload("job.json: not a workload"), "job.json: not a workload"),
        (BadPlan("two\n  lines"), "two lines"),
        (
            FileNotFoundError(errno.ENOENT, "No such file or directory", "a.pcap"),
            "a.pcap: No such file or directory",
        ),
        (OSError(errno.ENOSPC, "No space left on device"), "No space left on device"),
        (OSError("no words from the system"), "no words from the system"),
        (ValueError(), "ValueError"),
    ],
)
def test_a_fault_of_input_or_machine_is_one_line(
    error: Exception, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert outcome(error) == 1
    assert capsys.readouterr().err == f"gradwire: {line}\n"


@pytest.mark.parametrize("error", [KeyError("k"), RuntimeError("odd"), AssertionError(), TypeError("x")])
def test_what_nobody_thought_of_is_a_bug_with_its_traceback(
    error: Exception, capsys: pytest.CaptureFixture[str]
) -> None:
    assert outcome(error) == 1
    printed = capsys.readouterr().err
    assert printed.startswith("Traceback")
    assert printed.splitlines()[-1].startswith("gradwire: this is a bug")


@pytest.mark.parametrize(
    ("error", "ending"),
    [
        (OSError(errno.EMFILE, "Too many open files"), "raise the limit on open files (ulimit -n)"),
        (
            ValueError("the agent: [Errno 24] Too many open files"),
            "raise the limit on open files (ulimit -n)",
        ),
        (OSError(errno.EFBIG, "File too large", "x.svg"), "raise the limit on file size (ulimit -f)"),
        (
            OSError(errno.ENOMEM, "Cannot allocate memory"),
            "(ulimit -v or -d, or the container's), or choose a smaller job",
        ),
        (RuntimeError("can't start new thread"), "processes (ulimit -u) or on memory (ulimit -v)"),
        (
            ImportError("x.so: failed to map segment from shared object"),
            "raise the limit, or choose a smaller job",
        ),
    ],
)
def test_a_limit_that_is_reached_is_named_with_what_raises_it(
    error: Exception, ending: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert outcome(error) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.endswith(ending)
    assert "Errno" not in line


@pytest.mark.parametrize("before", ["", "numpy was not imported.\n\nOriginal error was: "])
def test_a_library_on_a_file_system_that_is_mounted_noexec_does_not_lack_memory(
    before: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The dynamic linker's words are the same."""
    flags = {"/home/me/x.so": os.ST_NOEXEC | os.ST_NOSUID, "/usr/lib/x.so": os.ST_NOSUID}
    monkeypatch.setattr(os, "statvfs", lambda path: SimpleNamespace(f_flag=flags[path]))

    def said(path: str) -> str:
        assert outcome(ImportError(f"{before}{path}: failed to map segment from shared object")) == 1
        return capsys.readouterr().err

    assert said("/usr/lib/x.so") == f"gradwire: {NO_MEMORY}\n"
    assert said("/home/me/x.so").startswith("gradwire: /home/me/x.so: its file system is mounted noexec, so ")


def test_the_traceback_of_a_fault_can_be_asked_for(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GRADWIRE_TRACEBACK", "1")
    assert outcome(ValueError("odd k")) == 1
    printed = capsys.readouterr().err
    assert printed.startswith("Traceback")
    assert printed.endswith("gradwire: odd k\n")


def test_an_interrupt_is_130(capsys: pytest.CaptureFixture[str]) -> None:
    assert outcome(KeyboardInterrupt()) == 130
    assert capsys.readouterr().err == "gradwire: interrupted\n"


def test_lack_of_memory_is_a_line_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    assert outcome(MemoryError()) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("gradwire: not enough memory")


def test_a_verdict_passes_through() -> None:
    assert outcome(typer.Exit(3)) == 3


def test_a_bad_option_found_by_the_command_is_usage() -> None:
    def command() -> None:
        raise typer.BadParameter("no such fabric")

    with pytest.raises(typer.BadParameter):
        guarded(command)()


def test_a_lost_socket_is_told_although_typer_would_end_silently(capsys: pytest.CaptureFixture[str]) -> None:
    assert outcome(BrokenPipeError(errno.EPIPE, "Broken pipe")) == 1
    assert capsys.readouterr().err == "gradwire: Broken pipe\n"


def test_a_missing_library_names_the_command_that_installs_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert report(ModuleNotFoundError("No module named 'numba.core'", name="numba.core")) == 1
    assert "numba.core is missing: run: sudo ./gradwire setup" in capsys.readouterr().err


def test_a_missing_module_of_our_own_is_a_bug(capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        report(ModuleNotFoundError("No module named 'gradwire.emu.nothing'", name="gradwire.emu.nothing"))
        == 1
    )
    assert "this is a bug" in capsys.readouterr().err


def test_a_rename_names_both_files() -> None:
    assert one_line(OSError(errno.EXDEV, os.strerror(errno.EXDEV), "a", None, "b")) == (
        "a: b: Invalid cross-device link"
    )


@pytest.mark.parametrize(
    "words", ["print('x' * 1000000)", "import rich\n    for _ in range(9999): rich.print('y' * 60)"]
)
def test_a_reader_that_has_seen_enough_ends_the_command_quietly(words: str) -> None:
    code = f"import sys; from gradwire.tools.exits import guarded\n@guarded\ndef f():\n    {words}\nf()"
    frame = f"import typer\ntry: exec({code!r})\nexcept typer.Exit as e: raise SystemExit(e.exit_code)"
    with subprocess.Popen(
        [sys.executable, "-c", frame], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.read(10)
        process.stdout.close()
        assert process.stderr.read() == ""
        assert process.wait() == 1


def test_a_value_that_a_capture_made_impossible_is_told_in_one_line_of_plain_words() -> None:
    with pytest.raises(ValueError, match="duration_ns") as raised:
        Compute(start=Start(rank=0), duration_ns=4 * 10**18)
    assert one_line(raised.value) == "the input is not valid: duration_ns is out of range"
