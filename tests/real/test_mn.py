"""Mininet's own command with gradwire's fabrics and switch, as a person types it."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from gradwire.emu.project import PROJECT
from tests.real.inside import inside

pytestmark = [pytest.mark.real, pytest.mark.untimed]

MN = [str(PROJECT / ".venv" / "bin" / "mn"), "--custom", "emu/mn.py", "--switch", "gradwire"]
REMOTE = ["--controller", "remote,ip=127.0.0.1"]


def mininet(controller: list[str], arguments: list[str]) -> dict[str, object]:
    """What is dropped of all pings, what is left behind, and what the controller said."""
    serving = subprocess.Popen(controller, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        done = subprocess.run(
            [*MN, *arguments, "--test", "pingall"], capture_output=True, text=True, timeout=100, check=False
        )
    finally:
        serving.terminate()
        said, _ = serving.communicate()
    (dropped,) = re.findall(r"Results: (\d+)% dropped", done.stdout + done.stderr) or [done.stderr]
    links = subprocess.run(["ip", "-o", "link"], capture_output=True, text=True, check=True).stdout
    agents = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    return {
        "code": done.returncode,
        "dropped": dropped,
        "links": links.count("-eth"),
        "agents": agents.count("gradwire.emu.switch.agent"),
        "bpf": Path("/proc/mounts").read_text().count("gradwire"),
        "said": said,
    }


CLEAN = {"code": 0, "dropped": "0", "links": 0, "agents": 0, "bpf": 0}


@pytest.mark.parametrize(
    ("spec", "topo", "routes"),
    [
        ("bigraph:n=8,m=2", "bigraph,8,2", "direct"),
        ("fat-tree:k=4", "fattree,4", "ecmp"),
        ("leaf-spine:leaves=4,spines=2,hosts=2", "leafspine,4,2,2", "dmodk"),
        ("torus:x=3,y=3", "torus,3,3", "ecmp"),
        ("mesh:x=2,y=3", "mesh,2,3", "dmodk"),
    ],
)
def test_pingall_over_the_fabric_drops_nothing_and_nothing_is_left(spec: str, topo: str, routes: str) -> None:
    controller = [str(PROJECT / "gradwire"), "controller", spec, "--routes", routes]
    seen = inside(mininet, controller, ["--topo", topo, *REMOTE, "--arp", "--mac"], timeout_s=120)
    said = seen.pop("said")
    assert seen == CLEAN, said
    assert "ready: every switch has its rules" in said


def test_an_ordinary_learning_app_makes_pingall_work_without_static_arp() -> None:
    app = [sys.executable, str(Path(__file__).with_name("learning_app.py"))]
    seen = inside(mininet, app, ["--topo", "tree,2", *REMOTE], timeout_s=120)
    said = seen.pop("said")
    assert seen == CLEAN, said


def typed(commands: str) -> dict[str, str]:
    """What Mininet's own command says to what is typed at its prompt, on two leaves and two spines."""
    controller = [str(PROJECT / "gradwire"), "controller", "leaf-spine:leaves=2,spines=2,hosts=1"]
    serving = subprocess.Popen(controller, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        done = subprocess.run(
            [*MN, "--topo", "leafspine,2,2,1", *REMOTE, "--arp", "--mac"],
            input=commands,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=100,
            check=False,
        )
    finally:
        serving.terminate()
        serving.wait()
    return {"code": str(done.returncode), "said": done.stdout.replace("\r", "")}


def test_mininets_own_prompt_has_the_same_commands_and_no_exception_ends_it() -> None:
    commands = "leaf0 dpctl dump-groups\npy 1/0\nswitch spine0 stop\npingall\ndpctl dump-flows\n"
    commands += "switch spine0 start\npingall\nspine0 dpctl dump-flows\nexit\n"
    seen = inside(typed, commands, timeout_s=120)
    said = seen["said"]
    assert seen["code"] == "0"
    assert re.search(r"group_id=\d+,type=select,bucket=.*actions=output:\d+,bucket=", said)
    assert "*** ZeroDivisionError: division by zero" in said
    assert said.count("0% dropped (2/2 received)") == 2
    assert "spine0 is stopped" in said
    assert re.search(r"priority=\d+,ip,nw_dst=10\.0\.0\.1 actions=output:1\n", said.rpartition("Results")[2])


def measured() -> str:
    """What `mn --test iperf` says of two hosts at one of our switches."""
    app = [sys.executable, str(Path(__file__).with_name("learning_app.py"))]
    serving = subprocess.Popen(app, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        done = subprocess.run(
            [*MN, "--topo", "single,2", *REMOTE, "--link", "tc,bw=10", "--test", "iperf"],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=60,
            check=False,
        )
    finally:
        serving.terminate()
        serving.wait()
    return done.stdout


def test_mininets_iperf_test_ends_and_measures_the_link() -> None:
    said = inside(measured, timeout_s=90)
    received, _ = re.findall(r"'([\d.]+) Mbits/sec'", said)
    assert 2 < float(received) <= 10 * 1448 / 1514 * 1.05  # full frames, but for the first burst


def script() -> int:
    """A Mininet script of the plainest kind: no topology class, so each switch is started alone."""
    code = """
from mininet.net import Mininet
from mininet.node import RemoteController
from gradwire.emu.switch.node import GradwireSwitch
net = Mininet(controller=None)
net.addController("c0", RemoteController, ip="127.0.0.1")
a, b = (net.addHost(name, ip=ip) for name, ip in (("a", "10.0.0.1/8"), ("b", "10.0.0.2/8")))
s1, s2 = (net.addSwitch(name, GradwireSwitch) for name in ("s1", "s2"))
for pair in ((a, s1), (s1, s2), (s2, b)):
    net.addLink(*pair)
net.build()
for switch in (s1, s2):
    switch.start(net.controllers)
net.waitConnected(10)
assert s1.agent is not s2.agent
dropped = net.pingAll()
net.stop()
raise SystemExit(int(dropped))
"""
    app = [sys.executable, str(Path(__file__).with_name("learning_app.py"))]
    serving = subprocess.Popen(app, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        environment = {**os.environ, "PYTHONPATH": str(PROJECT)}
        return subprocess.run(
            [sys.executable, "-c", code], env=environment, timeout=60, check=False
        ).returncode
    finally:
        serving.terminate()
        serving.wait()


def test_switches_that_a_script_starts_one_by_one_forward() -> None:
    assert inside(script, timeout_s=90) == 0
