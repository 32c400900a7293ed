"""The prompt's `iperf`: iperf3 between two hosts, always over within a known time.

Mininet's own waits for a second line of iperf 2's server, which iperf 2.1.8 does not print.
"""

import json
import os
import select
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

PORT = 5001  # Mininet's
SECONDS = 5
_CONNECT_MS = 3000
_LISTEN_S = 10.0
_LATE_S = 10.0


class IperfFailed(Exception):
    """iperf3 did not measure; the text is one line."""


def measured(client: Any, server: Any, udp_rate: str | None = None) -> list[str]:
    """What `server` received and `client` sent, as Mininet's `Results` have it: `47.9 Mbits/sec`.

    Both are nodes of Mininet.  UDP is sent at `udp_rate`, as `10M`, and comes first in the list; else it is
    TCP.  Raise IperfFailed, and OSError if iperf3 is not installed.
    """
    with _listening(server):
        words = ["iperf3", "-c", server.IP(), "-p", str(PORT), "-t", str(SECONDS), "-J"]
        words += ["--connect-timeout", str(_CONNECT_MS)]
        words += ["-u", "-b", udp_rate] if udp_rate else []
        done = _ended(_started(client, words), SECONDS + _LATE_S)
    sent_bps, received_bps = _rates(done, f"{client.name} → {server.name}")
    return [*([udp_rate] if udp_rate else []), _shown(received_bps), _shown(sent_bps)]


def _started(node: Any, words: list[str]) -> "subprocess.Popen[str]":
    process: subprocess.Popen[str] = node.popen(words, text=True, stderr=subprocess.STDOUT)
    return process


@contextmanager
def _listening(server: Any) -> Iterator[None]:
    """A server for one client."""
    process = _started(server, ["iperf3", "-s", "-1", "-p", str(PORT), "--forceflush"])
    try:
        _await_listening(server.name, process)
        yield
    finally:
        process.kill()
        process.communicate()


def _await_listening(server: str, process: "subprocess.Popen[str]") -> None:
    assert process.stdout
    said, deadline_s = "", time.monotonic() + _LISTEN_S
    while "listening" not in said:
        if not select.select([process.stdout], [], [], max(0.0, deadline_s - time.monotonic()))[0]:
            raise IperfFailed(f"{server}: iperf3 does not listen after {_LISTEN_S:.0f} s")
        octets = os.read(process.stdout.fileno(), 1 << 12)
        if not octets:
            raise IperfFailed(f"{server}: {_last_line(said)}")
        said += octets.decode(errors="replace")


def _ended(process: "subprocess.Popen[str]", limit_s: float) -> str:
    try:
        return process.communicate(timeout=limit_s)[0]
    except subprocess.TimeoutExpired:
        raise IperfFailed(f"iperf3 did not end within {limit_s:.0f} s: are packets lost?") from None
    finally:
        process.kill()
        process.communicate()


def _rates(said: str, where: str) -> tuple[float, float]:
    """(sent, received) in bits per second."""
    try:
        result = json.loads(said)
    except ValueError:
        raise IperfFailed(f"{where}: {_last_line(said)}") from None
    if "error" in result:
        raise IperfFailed(f"{where}: iperf3: {result['error']}")
    end = result["end"]
    sent, received = end["sum_sent"], end["sum_received"]
    return float(sent["bits_per_second"]), float(received["bits_per_second"])


def _last_line(said: str) -> str:
    lines = said.strip().splitlines()
    return lines[-1] if lines else "iperf3 ended without a word"


def _shown(rate_bps: float) -> str:
    for unit, size in (("Gbits", 1e9), ("Mbits", 1e6), ("Kbits", 1e3)):
        if rate_bps >= size:
            return f"{rate_bps / size:.3g} {unit}/sec"
    return f"{rate_bps:.0f} bits/sec"
