"""How much memory a reader takes: never more than the process may."""

import gzip
import os
import subprocess
import sys
from pathlib import Path

import pytest

from gradwire.traces.memory import free_nbytes, group_free_nbytes, limited_nbytes

GIB = 1 << 30


def group(folder: Path, **files: object) -> None:
    """Files of a control group: memory_max is memory.max."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, value in files.items():
        (folder / name.replace("memory_", "memory.")).write_text(f"{value}\n")


def test_the_least_of_all_groups_of_version_2_counts(tmp_path: Path) -> None:
    group(tmp_path / "a", memory_max=3 * GIB, memory_current=GIB, memory_stat="anon 5\ninactive_file 4096")
    group(tmp_path / "a/b", memory_max="max", memory_current=GIB // 2)
    assert list(group_free_nbytes(tmp_path, "0::/a/b\n")) == [2 * GIB + 4096]
    group(tmp_path / "a/b", memory_max=GIB)
    assert min(group_free_nbytes(tmp_path, "0::/a/b\n")) == GIB // 2


def test_a_group_of_version_1_counts_and_its_largest_number_is_no_limit(tmp_path: Path) -> None:
    membership = "4:cpu,memory:/box\n3:pids:/box\n0::/\n"
    group(tmp_path / "memory/box", memory_limit_in_bytes=GIB, memory_usage_in_bytes=GIB // 4)
    group(tmp_path / "memory", memory_limit_in_bytes=2**63 - 4096, memory_usage_in_bytes=GIB)
    assert list(group_free_nbytes(tmp_path, membership)) == [GIB - GIB // 4]


def test_in_a_container_whose_own_group_is_the_root(tmp_path: Path) -> None:
    group(tmp_path, memory_max=GIB, memory_current=GIB // 8)
    assert min(group_free_nbytes(tmp_path, "0::/\n")) == GIB - GIB // 8
    assert list(group_free_nbytes(tmp_path, "0::/not/seen/from/here\n")) == [GIB - GIB // 8]


def test_a_limit_of_the_process_leaves_what_is_not_taken() -> None:
    assert list(limited_nbytes(GIB, "VmPeak:\t 9 kB\nVmSize:\t  1024 kB\n", "VmSize")) == [GIB - (1 << 20)]
    assert list(limited_nbytes(-1, "", "VmSize")) == []


def test_this_process_may_take_something_and_no_more_than_the_machine_has() -> None:
    assert 0 < free_nbytes() < os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


@pytest.mark.long
def test_a_bomb_is_refused_in_one_line_within_the_limit_of_the_process(tmp_path: Path) -> None:
    """2 GiB unpacked, where the process may have another 256 MiB."""
    record = (1).to_bytes(4, "little") + bytes(12)  # of a packet without bytes, one second after 1970
    piece = gzip.compress(record * (4 << 20), 9)  # members may follow each other (RFC 1952, 2.2)
    head = bytes.fromhex("4d3cb2a1020004000000000000000000ffff000001000000")
    (tmp_path / "bomb.pcap.gz").write_bytes(gzip.compress(head) + piece * (2 * 16))
    (tmp_path / "empty.pcap.gz").write_bytes(gzip.compress(head))
    code = (
        "import re, resource, sys, typer\n"
        "from pathlib import Path; from gradwire.tools.exits import guarded\n"
        "from gradwire.traces.packets.capture import read_capture\n"
        "from gradwire.traces.packets.packets import BadCapture\n"
        "bomb = Path(sys.argv[1])\n"
        "try: read_capture(bomb.with_name('empty.pcap.gz'))\nexcept BadCapture: pass\n"  # loads the libraries
        "(kib,) = re.findall(r'VmSize:\\s+(\\d+) kB', Path('/proc/self/status').read_text())\n"
        "limit = int(kib) * 1024 + (256 << 20)\n"
        "resource.setrlimit(resource.RLIMIT_AS, (limit, limit))\n"
        "@guarded\ndef f(): read_capture(bomb)\n"
        "try: f()\nexcept typer.Exit as e: sys.exit(e.exit_code)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "bomb.pcap.gz")],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "memory" in done.stderr
