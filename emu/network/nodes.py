"""Mininet's nodes, interfaces and links for what exists already: Mininet knows them and starts nothing.

A node's shell comes when somebody wants one, at the prompt for instance: a shell for each is half of the
time that Mininet takes to build `fat-tree:k=8`.
"""

import os
import select
from socket import if_nametoindex
from typing import Any

from mininet.link import Intf, Link
from mininet.node import Host, Node

from gradwire.emu.kernel.namespaces import inside
from gradwire.emu.kernel.rtnetlink import link_state
from gradwire.emu.switch.node import GradwireSwitch
from gradwire.emu.switch.ofctl import shell_function

_OF_THE_SHELL = ("shell", "stdin", "stdout", "pollOut")
LOOK_MS = 200  # how often we look whether the shell that should answer is still there


class ShellEnded(Exception):
    """A node's shell ended while somebody waited for its answer, or cannot be started any more."""


class ShellOnDemand(Node):
    """The namespaces are those of process `pid`, a parameter of the node; the shell joins them."""

    inNamespace: bool
    shell: Any

    def startShell(self, mnopts: str | None = None) -> None:
        """Not yet: `__getattr__` does it."""
        del mnopts
        self.pid = self.params["pid"]
        for name in _OF_THE_SHELL:
            delattr(self, name)

    def __getattr__(self, name: str) -> Any:
        """Called for what is not there: the shell comes when it is first looked at.  Raise ShellEnded."""
        if name not in _OF_THE_SHELL:
            raise AttributeError(f"{type(self).__name__} has no {name}")
        try:
            os.close(os.open(f"/proc/{self.pid}/ns/net", os.O_RDONLY))
        except OSError:
            raise ShellEnded(f"{self.name} is gone: the process that kept its network has ended") from None
        self.shell = None
        is_elsewhere = self.inNamespace
        self.inNamespace = False  # else the shell would get a namespace of its own
        try:
            super().startShell(f"-cda{self.pid}")
        finally:
            self.inNamespace = is_elsewhere
        self.prepare_shell()
        return getattr(self, name)

    def prepare_shell(self) -> None:
        """What a new shell is to know."""

    def read(self, size: int = 1024) -> str:
        """What the shell wrote.  Raise ShellEnded, where Mininet's own waits for ever."""
        if len(self.readbuf) < size:
            self.waitReadable()
        return str(super().read(size))

    def waitReadable(self, timeoutms: int | None = None) -> Any:
        """Whether there is output.  Raise ShellEnded, where Mininet's own waits for ever."""
        while not self._has_output(LOOK_MS if timeoutms is None else timeoutms):
            if timeoutms is not None:
                return False
            self.check_shell()
        return True

    def _has_output(self, timeout_ms: int) -> bool:
        """Not asked of Mininet's `pollOut`, which is ready whenever the shell can be written to."""
        poll = select.poll()
        poll.register(self.stdout, select.POLLIN)
        return bool(poll.poll(timeout_ms))

    def check_shell(self) -> None:
        """Raise ShellEnded if it has ended and said all; the next command gets another one."""
        code = self.shell.poll() if self.shell else None
        if code is None or self._has_output(0):
            return
        for ends, end in ((self.outToNode, self.stdout), (self.inToNode, self.stdin)):
            ends.pop(end.fileno(), None)
        self.stdout.close()  # the terminal's one end, which is stdin as well
        os.close(self.slave)
        for name in _OF_THE_SHELL:
            delattr(self, name)
        self.waiting, self.readbuf, self.pid = False, "", self.params["pid"]
        how = f"by signal {-code}" if code < 0 else f"with exit code {code}"
        raise ShellEnded(f"{self.name}'s shell ended {how}; its next command starts a new one")

    def terminate(self) -> None:
        if "shell" in vars(self):
            super().terminate()


class MadeHost(ShellOnDemand, Host):
    """A host in namespaces that exist already."""


class MadeSwitch(ShellOnDemand, GradwireSwitch):
    """A switch among the others, in our own namespace."""

    def __init__(self, name: str, dpid: str, **parameters: Any) -> None:
        super().__init__(name, dpid, **{**parameters, "pid": os.getpid(), "inNamespace": True})
        self.inNamespace = False  # said late, for Mininet would start a shell to bring our loopback up
        self.controlIntf = MadeIntf("lo", self, port=0)

    def prepare_shell(self) -> None:
        if self.management:
            self.cmd(shell_function(self.management, self.name))

    def connected(self) -> bool:
        """True: the session waits for the controller's `ready`, said once all switches have answered."""
        return True

    def stop(self, deleteIntfs: bool = True) -> None:
        """At the lab's end nothing is to be done: the cables are deleted all at once, not one by one."""
        if not deleteIntfs:
            super().stop(deleteIntfs)


class MadeIntf(Intf):
    """An interface that is set up: there is nothing to configure and nothing to ask."""

    def config(self, **params: Any) -> dict[str, Any]:
        del params
        return {}

    def status(self) -> str:
        """Of the prompt's `links`: Mininet's own is OK also of a dead cable, and takes a process."""
        with inside(self.node.pid):
            is_running = link_state(if_nametoindex(self.name)).is_running
        return "OK" if is_running else "DOWN"


class MadeLink(Link):
    """A link whose interfaces are there."""

    def makeIntfPair(self, *args: Any, **kwargs: Any) -> None:
        """Nothing to do."""
