"""Another machine of a run, as the one that runs the command sees it: reached by ssh, asked by messages."""

import json
import os
import secrets
import shlex
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import gradwire
from gradwire.emu.machines import wire
from gradwire.emu.network import underlay
from gradwire.emu.project import source_digest
from gradwire.emu.records import RepeatCounts
from gradwire.emu.replay.fleet import FAILED
from gradwire.emu.replay.outcome import Complaint
from gradwire.emu.watch import ChildProcess, RunFailed, Watch, running
from gradwire.planning.fabrics.fabric import Fabric
from gradwire.planning.fabrics.spec import fabric_to_json
from gradwire.planning.machines import machinesfile
from gradwire.planning.machines.part import Part, last_first_vni, part_of
from gradwire.planning.machines.partition import partition
from gradwire.planning.plan import Plan

SSH = "GRADWIRE_SSH"  # in the environment: the program that reaches other machines, with options; else ssh
HELLO_S = 60.0
BUILD_S = 120.0
_CLOCK_ROUNDS = 20
_SSH_OPTIONS = ("-o", "BatchMode=yes", "-o", "ConnectTimeout=10", "-o", "ServerAliveInterval=5")


class Machine:
    """One that answers.  Of the agents of its `ranks` it is a member of the fleet (emu.replay.fleet).

    `host_pids` has a process in the namespaces of each host there, by its number in those of the session
    there, once the machine forwards.
    """

    def __init__(
        self,
        listed: machinesfile.Machine,
        child: ChildProcess,
        watch: Watch,
        part: Part,
        fabric: Fabric,
        plan: Plan | None,
    ) -> None:
        assert child.process.stdout
        self._listed = listed
        self._child = child
        self._watch = watch
        self._lines = wire.Lines(child.process.stdout.fileno())
        self._name = listed.name
        self._plan = plan
        self._hosts = part.hosts(fabric)
        self.switches = part.switches(fabric)
        self.ranks = [rank for rank, host in enumerate(plan.placement if plan else ()) if host in part.nodes]
        self.host_pids: dict[str, int] = {}
        self._session_pid = 0
        self._ahead_ns = 0
        self._uncertainty_ns = 0  # of how far its clock is ahead of ours
        self._start_ns = 0  # of the repeat, by its clock
        self._counts: RepeatCounts | None = None

    @property
    def name(self) -> str:
        return self.process_name

    @property
    def process_name(self) -> str:
        return f"machine {self._name}"

    def complaint(self) -> str:
        """How it ended."""
        return self._child.complaint()

    def watched(self) -> AbstractContextManager[None]:
        """While this is open, its end ends the run."""
        return self._watch.over(self.process_name, self._child.process.pid, self._child.log)

    def fileno(self) -> int:
        assert self._child.process.stdout
        return self._child.process.stdout.fileno()

    def counts(self) -> RepeatCounts:
        """What it counted around the last repeat."""
        assert self._counts
        return self._counts

    def send(self, message: Any) -> None:
        """A message of the fleet to all its agents.  Raise BrokenPipeError if it is gone."""
        match message:
            case ("run", repeat):
                self._compare_clocks()
                self.tell("run", repeat)
            case ("start", start_ns):
                self._start_ns = start_ns + self._ahead_ns
                self.tell("start", self._start_ns)
            case ("check", accesses):
                self.tell("check", accesses)
            case str(word):
                self.tell(word)

    def recv(self) -> tuple[str, Any]:
        """The answer, with a value for each of its ranks.  Raise EOFError if it is gone."""
        assert self._plan
        with self._blamed():
            said, value = wire.parsed(self._lines.next())
            if said == FAILED:
                failure = wire.checked(wire.FAILURE, value)
                return said, Complaint(failure.text, failure.blamed)
            if said == "done":
                accesses = wire.checked(wire.ACCESSES, value)
                wire.check_accesses(accesses, len(self.ranks), self._plan.schedule)
                return said, accesses
            if said == "outcome":
                measured = wire.checked(wire.MEASURED, value)
                schedule = self._plan.schedule
                wire.check_measured(measured, self.ranks, self._name, schedule, self._start_ns)
                measured = wire.earlier(measured, self._ahead_ns)
                self._counts = replace(measured.counts, clock_s=self._uncertainty_ns / 1e9)
                return said, measured.outcomes
        return said, [None] * len(self.ranks)

    def tell(self, kind: str, value: object = None) -> None:
        """Raise BrokenPipeError if it is gone."""
        stdin = self._child.process.stdin
        assert stdin
        wire.put(stdin.fileno(), kind, value)

    def heard(self, kind: str, timeout_s: float) -> Any:
        """The value of its next message, which must be of this kind.  Raise RunFailed."""
        if not self._watch.wait([self], timeout_s):
            raise RunFailed(f"machine {self._name} did not report {kind!r} within {timeout_s:.0f} s")
        try:
            with self._blamed():
                said, value = wire.parsed(self._lines.next(wire.MAX_SHORT_NBYTES))
                if said == FAILED:
                    raise RunFailed(f"machine {self._name}: {wire.checked(wire.FAILURE, value).text}")
        except EOFError:
            raise RunFailed(self._child.complaint()) from None
        if said != kind:
            raise RunFailed(f"machine {self._name} sent {said[:60]!r} instead of {kind!r}")
        return value

    @contextmanager
    def _blamed(self) -> Iterator[None]:
        """Raise RunFailed that names the machine for what cannot be used."""
        try:
            yield
        except wire.BadMessage as error:
            raise RunFailed(f"machine {self._name} sent a message that cannot be used: {error}") from error

    def begin(self, value: dict[str, Any]) -> None:
        """Let it build its part.  Raise RunFailed."""
        try:
            self.tell("begin", value | {"machine": self._name})
        except BrokenPipeError:
            raise RunFailed(self._child.complaint()) from None

    def await_forwarding(self) -> None:
        """Return when its switches forward.  Raise RunFailed."""
        value = self.heard("forwarding", BUILD_S)
        with self._blamed():
            built = wire.checked(wire.BUILT, value)
            if set(built.host_pids) != set(self._hosts):
                raise wire.BadMessage("the processes of hosts that it does not have")
        self._session_pid, self.host_pids = built.pid, built.host_pids

    def entering(self, line: str, is_shell: bool) -> list[str]:
        """The command that runs a line of shell in the namespaces of its session; `is_shell` for one that
        has a terminal.
        """
        session = f"--target {self._session_pid} --net --mount --pid --ipc"
        return ssh_command(self._listed, f"nsenter {session} -- {line}", ("-tt",) if is_shell else ())

    def power(self, verb: str, switch: str) -> None:
        """`stop` or `start` one of its switches.  Raise RunFailed."""
        try:
            self.tell("power", [verb, switch])
        except BrokenPipeError:
            raise RunFailed(self._child.complaint()) from None
        self.heard("power", BUILD_S)

    def check_hello(self) -> None:
        """Raise RunFailed for another version, or for other code of the same one."""
        value = self.heard("hello", HELLO_S)
        with self._blamed():
            hello = wire.checked(wire.HELLO, value)
        if hello.version != gradwire.__version__:
            raise RunFailed(
                f"machine {self._name} has gradwire {hello.version}, and this one {gradwire.__version__}: "
                "install the same version on both"
            )
        if hello.source != source_digest():
            raise RunFailed(
                f"machine {self._name} and this one have different code of gradwire {hello.version}: check "
                "out the same commit on both"
            )

    def _compare_clocks(self) -> None:
        """How far its clock is ahead of ours: by the shortest of some questions (RFC 5905, section 8)."""
        found = []
        for _ in range(_CLOCK_ROUNDS):
            before_ns = time.monotonic_ns()
            self.tell("clock")
            answer = self.heard("clock", HELLO_S)
            after_ns = time.monotonic_ns()
            with self._blamed():
                theirs_ns = wire.checked(wire.NUMBER, answer)
            found.append((after_ns - before_ns, theirs_ns - (before_ns + after_ns) // 2))
        round_trip_ns, self._ahead_ns = min(found)
        self._uncertainty_ns = round_trip_ns // 2


@dataclass(frozen=True)
class Team:
    """The `part` of the `fabric` that is here, and the machines with the rest; `watch` is over these."""

    fabric: Fabric
    part: Part
    others: Sequence[Machine]
    watch: Watch

    def tell(self, kind: str) -> None:
        """Ask all others.  Raise RunFailed."""
        for machine in self.others:
            try:
                machine.tell(kind)
            except BrokenPipeError:
                raise RunFailed(machine.complaint()) from None

    def await_forwarding(self) -> None:
        """Return when all others have built their parts, and the controller's packets come through to them.
        Raise RunFailed and OSError.
        """
        for machine in self.others:
            machine.await_forwarding()
        underlay.check_controls(self.part, self.fabric)


@contextmanager
def assembled(
    machines: machinesfile.Machines,
    fabric: Fabric,
    folder: Path,
    plan: Plan | None = None,
) -> Iterator[Team]:
    """The machines, once each has answered that it has our code, and has begun to build its part.

    The `plan`, if there is one, is also in `plan.json` in the folder; the machines' logs are put there.  For
    a session that was handed the machine's own network.  Raise ValueError for machines that cannot be used
    together, OSError for this machine's own network, and RunFailed, which names another machine.
    """
    machinesfile.check_buildable(machines)
    machinesfile.check_mtu(fabric, machines)
    made = partition(fabric, machines.machines)
    first_vni = 1 + secrets.randbelow(last_first_vni(made))
    parts = {each.name: part_of(machines, made, each.name, first_vni) for each in machines.machines}
    (here,) = (each.name for each in machines.machines if each.ssh is None)
    underlay.check(parts[here], fabric)
    begin = {
        "machines": machines.model_dump(mode="json"),
        "first_vni": first_vni,
        "plan": json.loads((folder / "plan.json").read_text()) if plan else None,
        "fabric": fabric_to_json(fabric),
    }
    watch = Watch()
    with ExitStack() as stack:
        others = []
        for each in machines.machines:
            if each.ssh is not None:
                log = folder / f"machine-{each.name}.log"
                command = ssh_command(each, f"{each.gradwire} part")
                name = f"machine {each.name}"
                child = stack.enter_context(running(name, command, log, pass_fds=(underlay.handed(),)))
                others.append(Machine(each, child, watch, parts[each.name], fabric, plan))
        for machine in others:  # they have been starting meanwhile
            machine.check_hello()
        for machine in others:
            machine.begin(begin)
            stack.enter_context(machine.watched())
        yield Team(fabric, parts[here], others, watch)


def ssh_command(machine: machinesfile.Machine, line: str, options: Sequence[str] = ()) -> list[str]:
    """What runs a line of shell on the machine, from a session's own network."""
    assert machine.ssh
    given = os.environ.get(SSH)
    ssh = shlex.split(given) if given else ["ssh", *_SSH_OPTIONS]
    if shutil.which(ssh[0]) is None:
        raise FileNotFoundError(f"{ssh[0]} is not installed: run apt-get install openssh-client")
    return underlay.command([*ssh, *options, machine.ssh, line])
