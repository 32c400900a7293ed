"""What gradwire finds out about the machine, against what the machine says by other ways."""

import platform
import subprocess
from importlib.metadata import version
from pathlib import Path

import pytest

from gradwire.tools import thismachine


def test_a_tool_that_is_not_there_has_no_version() -> None:
    assert thismachine.tool_version(("gradwire-no-such-tool", "--version")) is None


def test_a_tool_that_may_not_be_run_has_no_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As where a folder of PATH is another user's."""
    (tmp_path / "closed").write_text("")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert thismachine.tool_version(("closed", "--version")) is None


@pytest.mark.parametrize(
    ("first_line", "number"),
    [
        ("ip utility, iproute2-6.1.0, libbpf 1.1.2", "6.1.0"),
        ("ping from iputils 20221126", "20221126"),
        ("TShark (Wireshark) 4.0.17 (Git v4.0.17 packaged as 4.0.17-0+deb12u3)", "4.0.17"),
        ("a tool of no number", "of unknown version"),
    ],
)
def test_the_version_is_the_first_number_in_the_first_line(first_line: str, number: str) -> None:
    assert thismachine.tool_version(("echo", first_line)) == number


def test_a_library_that_is_none_cannot_be_loaded_and_the_reason_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for content, reason in ((b"", "too short"), (None, "No such file")):
        library = tmp_path / f"{reason}.so"
        if content is not None:
            library.write_bytes(content)
        monkeypatch.setattr(thismachine, "COMPILED", ["libc.so.6", library])
        assert reason in thismachine.compiled_fault()
    monkeypatch.setattr(thismachine, "COMPILED", ["libc.so.6"])
    assert thismachine.compiled_fault() == ""


def test_a_silent_tool_is_there_all_the_same() -> None:
    assert thismachine.tool_version(("true",)) == "of unknown version"


def test_the_resources_are_those_that_the_machine_tells() -> None:
    assert thismachine.n_cpus() == int(subprocess.check_output(["nproc"]))
    assert thismachine.kernel() == platform.release()
    df = subprocess.check_output(["df", "--block-size=1", "--output=avail", "/"], text=True)
    assert thismachine.free_disk_nbytes(Path("/")) == pytest.approx(int(df.split()[1]), rel=0.05)


def test_a_package_unlike_the_lock_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    installed = version("pytest")
    lock = tmp_path / "lock"
    lock.write_text(f"# remark\npytest=={installed}\nrich==0.1\ngradwire-no-such-package==1\n")
    monkeypatch.setattr(thismachine, "LOCK", lock)
    rich = f"rich {version('rich')}, not 0.1"
    assert list(thismachine.packages_unlike_the_lock()) == [rich, "gradwire-no-such-package is missing"]


def test_what_runs_here_is_as_the_lock_says() -> None:
    assert list(thismachine.packages_unlike_the_lock()) == []
