"""The lab VM's description, as far as it can be checked without starting one."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from gradwire.tools.commands.serve import PORT
from gradwire.tools.live.view import DEFAULT_PORT

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "Vagrantfile").read_text()


@pytest.mark.skipif(shutil.which("vagrant") is None, reason="Vagrant is not installed")
def test_vagrant_accepts_it(tmp_path: Path) -> None:
    shutil.copy(ROOT / "Vagrantfile", tmp_path)
    done = subprocess.run(["vagrant", "validate"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture
def provisioned(tmp_path: Path) -> tuple[Path, Path]:
    """A project on the host, and its copy in the machine, with a set-up that says that it ran."""
    host, guest = tmp_path / "host", tmp_path / "home" / "gradwire"
    files = (
        "gradwire",
        "tools/setup.sh",
        "emu/switch/compile.sh",
        "runs/own.txt",
        ".git/config",
        "README.md",
    )
    for name in files:
        (host / name).parent.mkdir(parents=True, exist_ok=True)
        (host / name).write_text("#!/bin/sh\necho set up\n")  # without modes, as on a disk of Windows
        os.utime(host / name, (1, 1))
    (tmp_path / "home").mkdir()
    provision(host, guest)
    return host, guest


def provision(host: Path, guest: Path) -> None:
    script = ROOT / "tools" / "vm" / "provision.sh"
    done = subprocess.run([script, host, guest], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "set up\n", "")


def test_the_machine_is_provisioned_by_that_script() -> None:
    (script,) = re.findall(
        r'provision "shell", inline: "sh /vagrant/(\S+) /vagrant /home/vagrant/gradwire"', TEXT
    )
    assert ROOT / script == ROOT / "tools" / "vm" / "provision.sh"


def test_what_is_made_on_the_host_stays_there(provisioned: tuple[Path, Path]) -> None:
    _, guest = provisioned
    assert sorted(path.name for path in guest.iterdir()) == [
        ".types",
        "README.md",
        "emu",
        "gradwire",
        "tools",
    ]


def test_the_copy_has_the_link_and_the_modes_that_a_shared_folder_of_windows_lacks(
    provisioned: tuple[Path, Path],
) -> None:
    _, guest = provisioned
    assert (guest / ".types" / "gradwire").resolve() == guest.resolve()
    for name in ("gradwire", "tools/setup.sh", "emu/switch/compile.sh"):
        assert (guest / name).stat().st_mode & 0o111 == 0o111


def test_provisioning_again_deletes_nothing_and_keeps_what_was_edited(provisioned: tuple[Path, Path]) -> None:
    host, guest = provisioned
    for name in ("captures/h0.pcap", "labs/mine/lab.yaml", "runs/monday/result.json"):
        (guest / name).parent.mkdir(parents=True)
        (guest / name).write_text("mine")
    (guest / "README.md").write_text("edited in the machine")
    (host / "gradwire").write_text("changed on the host")
    (host / "emu" / "switch" / "compile.sh").unlink()
    (host / "tools" / "new.py").touch()
    provision(host, guest)
    for name in ("captures/h0.pcap", "labs/mine/lab.yaml", "runs/monday/result.json"):
        assert (guest / name).read_text() == "mine"
    assert (guest / "README.md").read_text() == "edited in the machine"
    assert (guest / "gradwire").read_text() == "changed on the host"
    assert (guest / "emu" / "switch" / "compile.sh").exists()
    assert (guest / "tools" / "new.py").exists()


def test_every_variable_that_it_reads_is_documented_in_its_head() -> None:
    head, _, code = TEXT.partition("Vagrant.configure")
    assert set(re.findall(r"GRADWIRE_\w+", code)) == set(re.findall(r"GRADWIRE_\w+", head))


def test_rsync_deletes_nothing_and_copies_links_as_links() -> None:
    """One of the links, .types/gradwire, leads to the folder that is copied."""
    (arguments,) = re.findall(r"rsync__args: \[(.*)\]", TEXT)
    assert "--archive" in arguments and "--update" in arguments
    assert "--copy-links" not in arguments and "--delete" not in arguments


def test_the_ports_of_pages_are_forwarded_to_loopback_on_both_sides() -> None:
    (ports,) = re.findall(r"^PORTS = \[(.*)\]", TEXT, re.MULTILINE)
    assert [int(port) for port in ports.split(", ")] == [PORT, DEFAULT_PORT]
    assert '"127.0.0.1:#{port}:127.0.0.1:#{port}"' in TEXT
    assert 'host_ip: "127.0.0.1", guest_ip: "127.0.0.1"' in TEXT
