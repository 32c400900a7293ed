"""The entry script and the set-up script, in a small project of their own."""

import fcntl
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
NOBODY = 65534
COMPILE = "#!/bin/sh\nmkdir -p emu/switch/build && cat emu/switch/switch.c > emu/switch/build/switch.o\n"
COMPILE_LIBRARY = """#!/bin/sh
mkdir -p emu/{0}/build && cat emu/{0}/{1}.c > emu/{0}/build/lib{1}.so
"""
LIBRARIES = {"aggregation": "worker", "replay": "rank"}
LOOPS = (
    *(
        f"traces/packets/{name}.py"
        for name in (
            "addresses",
            "columns",
            "cover",
            "decode",
            "inorder",
            "jit",
            "packets",
            "pcap",
            "pcapng_loop",
            "walkers",
        )
    ),
    "traces/analysis/flowloops.py",
    "traces/analysis/percentiles.py",
    "traces/analysis/spacing.py",
    "traces/schedules/buffers.py",
    "traces/schedules/pieces.py",
    "traces/schedules/races.py",
    "planning/model/bulk.py",
    "planning/model/predict.py",
    "tools/looplibrary.py",
)
BUILT_LOOPS = "traces/build/loops.cpython.so"
# In place of .venv's Python: it prints what it was called with, and makes the library of loops.
PYTHON = f"""#!/bin/sh
[ "$1" = -c ] && exit 0
[ "${{3-}}" = gradwire.tools.looplibrary ] && mkdir -p traces/build && touch {BUILT_LOOPS} && exit 0
echo "$PWD|$*"
"""


@pytest.fixture
def project() -> Iterator[Path]:
    """A folder with our scripts, nothing to install, and a .venv that is whole."""
    with tempfile.TemporaryDirectory() as made:
        home = Path(made).resolve() / "home"
        for folder in (
            "tools",
            "emu/switch",
            "emu/aggregation",
            "emu/replay",
            ".venv/bin",
            *{os.path.dirname(name) for name in LOOPS},
        ):
            (home / folder).mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / "gradwire", home)
        shutil.copy2(ROOT / "gradwire.py", home)
        shutil.copy2(ROOT / "tools" / "setup.sh", home / "tools")
        write(home / "tools/packages.apt", "bash  # always there\n\n# a remark\n")
        write(home / "requirements.lock", "some==1\n")
        write(home / ".venv/made-from", "some==1\n")
        write(home / ".venv/bin/python", PYTHON)
        write(home / "emu/switch/switch.c", "int x;\n")
        write(home / "emu/switch/compile.sh", COMPILE)
        for folder, name in LIBRARIES.items():
            write(home / f"emu/{folder}/{name}.c", "int y;\n")
            write(home / f"emu/{folder}/compile.sh", COMPILE_LIBRARY.format(folder, name))
        for name in LOOPS:
            write(home / name, "x = 1\n")
        os.chmod(made, 0o755)
        yield home


def write(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o755)


def run(*command: str | Path, cwd: Path, user: int | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, cwd=cwd, user=user, capture_output=True, text=True, check=False, timeout=60
    )


def set_up(project: Path) -> subprocess.CompletedProcess[str]:
    return run(project / "tools/setup.sh", cwd=project)


def is_current(project: Path) -> bool:
    return run(project / "tools/setup.sh", "--is-current", cwd=project).returncode == 0


def test_first_use_sets_up_and_then_runs_the_command(project: Path) -> None:
    first = run(project / "gradwire", "fabric", "star:hosts=8", cwd=project)
    assert first.returncode == 0
    assert "set-up: done" in first.stderr  # what a command prints to stdout may be read by a program
    assert first.stdout == f"{project}|-I {project}/emu/interpreter.py gradwire.tools fabric star:hosts=8\n"
    second = run(project / "gradwire", "fabric", cwd=project)
    assert second.stderr == ""


def test_a_command_runs_where_the_user_stands_and_by_a_link(project: Path) -> None:
    set_up(project)
    elsewhere = project.parent / "else where"
    elsewhere.mkdir()
    (elsewhere / "gw").symlink_to("../home/gradwire")
    done = run("./gw", "inspect", "a b.pcap", cwd=elsewhere)
    assert done.stdout == f"{elsewhere}|-I {project}/emu/interpreter.py gradwire.tools inspect a b.pcap\n"


def test_the_exit_code_is_the_commands(project: Path) -> None:
    set_up(project)
    write(project / ".venv/bin/python", "#!/bin/sh\nexit 3\n")
    assert run(project / "gradwire", "replay", cwd=project).returncode == 3


@pytest.mark.broad(5)
@pytest.mark.parametrize(
    "changed",
    [
        "requirements.lock",
        "tools/packages.apt",
        "tools/setup.sh",
        "emu/switch/switch.c",
        "emu/switch/compile.sh",
        "emu/aggregation/worker.c",
        "emu/aggregation/compile.sh",
        "emu/replay/rank.c",
        *LOOPS,
    ],
)
def test_a_change_of_what_it_was_made_from_calls_for_a_new_set_up(project: Path, changed: str) -> None:
    assert not is_current(project)
    set_up(project)
    assert is_current(project)
    with (project / changed).open("a") as file:
        file.write("# changed\n")
    assert not is_current(project)


@pytest.mark.parametrize(
    "lost",
    [
        ".venv/bin/python",
        "emu/switch/build/switch.o",
        "emu/aggregation/build/libworker.so",
        "emu/replay/build/librank.so",
        BUILT_LOOPS,
        ".venv/set-up",
    ],
)
def test_a_set_up_that_lost_something_is_not_current(project: Path, lost: str) -> None:
    set_up(project)
    (project / lost).unlink()
    assert not is_current(project)


def test_a_set_up_that_fails_is_not_current_and_says_where(project: Path) -> None:
    write(project / "emu/switch/compile.sh", "#!/bin/sh\necho switch.c:7: no such map >&2; exit 1\n")
    done = run(project / "gradwire", "fabric", cwd=project)
    assert done.returncode == 1
    assert done.stdout == ""
    assert "switch.c:7: no such map" in done.stderr
    assert "gradwire: compiling the switch failed" in done.stderr
    assert not is_current(project)


def test_an_interrupted_set_up_leaves_no_venv_that_looks_whole(project: Path) -> None:
    (project / ".venv/made-from").unlink()
    (project / ".venv/leftover").touch()
    # Makes a .venv whose pip kills the set-up, as a lost terminal would.
    write(project.parent / "python3", "#!/bin/sh\nmkdir -p .venv/bin && cp ../killer .venv/bin/python\n")
    write(project.parent / "killer", "#!/bin/sh\nkill -KILL $PPID\n")
    text = (project / "tools/setup.sh").read_text()
    write(
        project / "tools/setup.sh",
        text.replace("\npython=/usr/bin/python3", f"\npython={project.parent}/python3"),
    )
    assert set_up(project).returncode != 0
    assert (project / ".venv/bin/python").exists()
    assert not (project / ".venv/leftover").exists()
    assert not (project / ".venv/made-from").exists()
    assert not is_current(project)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_missing_packages_without_root_are_named_with_the_command_to_type(project: Path) -> None:
    write(project / "tools/packages.apt", "bash\ngradwire-no-such-package\n")
    os.chown(project, NOBODY, NOBODY)
    done = run(project / "gradwire", "fabric", cwd=project, user=NOBODY)
    assert done.returncode == 1
    assert done.stderr == (
        "gradwire: packages are missing (gradwire-no-such-package) and installing them needs root: "
        "run: sudo ./gradwire setup\n"
    )


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_once_set_up_by_root_it_needs_no_root_and_belongs_to_the_folders_owner(project: Path) -> None:
    os.chown(project, NOBODY, NOBODY)
    set_up(project)
    for made in (".venv/set-up", "emu/switch/build/switch.o", "emu/aggregation/build/libworker.so"):
        assert (project / made).stat().st_uid == NOBODY
    done = run(project / "gradwire", "fabric", cwd=project, user=NOBODY)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_a_folder_that_cannot_be_written_is_said_to_be_one(project: Path) -> None:
    done = run(project / "gradwire", "fabric", cwd=project, user=NOBODY)
    assert done.returncode == 1
    assert f"gradwire: cannot write to {project}" in done.stderr


@pytest.mark.long
def test_two_set_ups_at_once_take_turns(project: Path) -> None:
    # Fails if it is ever entered twice at the same time.
    write(
        project / "emu/switch/compile.sh",
        f"#!/bin/sh\nmkdir alone && sleep 0.3 && rmdir alone\n{COMPILE[10:]}",
    )
    command = [project / "tools/setup.sh"]
    both = [subprocess.Popen(command, cwd=project, stdout=subprocess.DEVNULL) for _ in range(2)]
    assert [process.wait(timeout=60) for process in both] == [0, 0]


def test_a_set_up_that_waits_for_another_says_so(project: Path) -> None:
    other = os.open(project, os.O_RDONLY)
    try:
        fcntl.flock(other, fcntl.LOCK_EX)
        command = [project / "tools/setup.sh"]
        with subprocess.Popen(command, cwd=project, stdout=subprocess.PIPE, text=True) as waiting:
            assert waiting.stdout is not None
            assert "another set-up is at work" in waiting.stdout.readline()
            fcntl.flock(other, fcntl.LOCK_UN)
            assert waiting.stdout.readlines()[-1] == "set-up: done\n"
            assert waiting.wait(timeout=60) == 0
    finally:
        os.close(other)


def test_setup_tells_its_usage(project: Path) -> None:
    asked = run(project / "gradwire", "setup", "--help", cwd=project)
    assert (asked.returncode, "--live" in asked.stdout) == (0, True)
    wrong = run(project / "gradwire", "setup", "--nonsense", cwd=project)
    assert (wrong.returncode, "--live" in wrong.stderr) == (2, True)


def test_the_lock_pins_every_package_that_the_project_needs() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [*project["dependencies"], *project["optional-dependencies"]["dev"]]
    pinned = {name.lower(): version for name, version, _ in locked("requirements.lock")}
    for text in wanted:
        requirement = Requirement(text)
        assert requirement.specifier.contains(pinned[requirement.name])


def locked(name: str) -> list[tuple[str, str, list[str]]]:
    """Name, version and hashes of each package in a lock."""
    lines = [line for line in (ROOT / name).read_text().splitlines() if not line.startswith("#")]
    found = []
    for entry in "\n".join(lines).replace("\\\n", " ").splitlines():
        pin, *hashes = entry.split()
        package, version = pin.split("==")
        found.append((package, version, hashes))
    return found


LOCKS = [
    "requirements.lock",
    *(f"requirements-{extra}.lock" for extra in ("docs", "live", "ray", "ryu")),
]


@pytest.mark.parametrize("name", LOCKS)
def test_a_lock_pins_each_package_to_one_version_and_to_files_by_their_hash(name: str) -> None:
    packages = locked(name)
    assert packages
    assert len({package.lower() for package, _, _ in packages}) == len(packages)
    for package, version, hashes in packages:
        assert re.fullmatch(r"[0-9]+(\.[0-9a-z]+)*", version), package
        assert hashes, package
        for text in hashes:
            assert re.fullmatch("--hash=sha256:[0-9a-f]{64}", text), package


@pytest.mark.parametrize("name", LOCKS)
def test_a_lock_names_no_index(name: str) -> None:
    lines = [line for line in (ROOT / name).read_text().splitlines() if not line.startswith("#")]
    assert not any("/" in line for line in lines)


def test_every_install_of_the_set_up_demands_hashes() -> None:
    text = (ROOT / "tools" / "setup.sh").read_text()
    installs = [line for line in text.splitlines() if "pip install" in line]
    assert installs
    assert all("--require-hashes" in line and "--no-deps" in line for line in installs)


def test_python_of_the_tests_is_the_one_that_was_set_up() -> None:
    assert Path(sys.prefix) == ROOT / ".venv"
