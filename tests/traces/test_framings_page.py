"""The page on framings: its example works, and its table lists all of them."""

import re
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path

import pytest

from gradwire.traces.framing import framings
from gradwire.traces.framing.framings import BUILT_IN
from gradwire.traces.reader import open_trace
from gradwire.traces.recognition.recognise import recognise
from gradwire.traces.workload import Message
from tests.made_captures import ACK, SYN, pcap, stream

PAGE = (Path(__file__).parents[2] / "docs" / "framings.md").read_text()
WORKER, SERVER = ("10.0.0.1", 40_000), ("10.0.0.2", 7_000)
SIZES = [5_000, 0, 70, 5_000]


def block(language: str) -> str:
    (found,) = re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)
    return str(found)


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The example's package, as pip would make it known."""
    (tmp_path / "mineframing.py").write_text(block("python"))
    monkeypatch.syspath_prepend(tmp_path)
    offered = tomllib.loads(block("toml"))["project"]["entry-points"][framings.GROUP]
    entries = EntryPoints([EntryPoint(name, value, framings.GROUP) for name, value in offered.items()])
    monkeypatch.setattr(framings, "entry_points", entries.select)
    framings.framings.cache_clear()
    yield
    framings.framings.cache_clear()
    sys.modules.pop("mineframing", None)  # the page on policies has a module of this name too


def capture(folder: Path, snaplen: int = 65_535) -> Path:
    """A worker's messages to a server, each in two packets, and the server's answers."""
    there = [b"MINE" + size.to_bytes(4, "big") + bytes(size) for size in SIZES]
    parts = [part for message in there for part in (message[:40], message[40:]) if part]
    forth = stream(WORKER, SERVER, [(1_000 * i + 1, part) for i, part in enumerate(parts)], 7, SYN)
    back = stream(SERVER, WORKER, [(90_000, b"MINE" + bytes(4))], 9, SYN | ACK)
    path = folder / "a.pcap"
    path.write_bytes(pcap(sorted(forth + back, key=lambda record: record.time_ns), snaplen=snaplen))
    return path


def test_the_table_names_every_framing() -> None:
    assert re.findall(r"^\| `([\w-]+)` \|", PAGE, re.MULTILINE) == [framing.name for framing in BUILT_IN]


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("snaplen", [65_535, 70])
def test_the_example_reads_its_messages_whatever_the_snaplen(tmp_path: Path, snaplen: int) -> None:
    """54 bytes of each packet are headers: of 70, the 8 that say how long a message is are left."""
    trace = open_trace([capture(tmp_path, snaplen)])
    assert trace.framing == "mine"
    sent = trace.messages.src == trace.addresses.index(WORKER[0])
    assert trace.messages.nbytes[sent].tolist() == SIZES
    messages = [item for item in recognise(trace).items if isinstance(item, Message)]
    assert [item.nbytes for item in messages if item.dst == 1] == SIZES


def test_without_the_example_nothing_reads_them(tmp_path: Path) -> None:
    """So it is the example that did."""
    from gradwire.traces.recognition.ranks import BadTrace

    with pytest.raises(BadTrace):
        open_trace([capture(tmp_path)])


def test_the_example_has_at_most_20_lines() -> None:
    assert sum(bool(line.strip()) for line in block("python").splitlines()) <= 20
