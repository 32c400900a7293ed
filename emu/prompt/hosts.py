"""The prompt of `gradwire up`, which knows how a host's command ended, and when its shell did."""

import os
import re
import select
import shlex
from collections.abc import Sequence
from typing import Any

from mininet.log import error, output
from mininet.util import quietRun

from gradwire.emu.network.nodes import LOOK_MS
from gradwire.emu.prompt.cli import LabPrompt
from gradwire.emu.watch import RunFailed, Watch

_STATUS = re.compile(r"gradwire-status=(\d+)")
_TYPED_NBYTES = 1024  # at a time
_PRINT_PID = ' ; printf "\\001%d\\012" $!'  # as Mininet has it: so it learns the job's process, and hides it


class Prompt(LabPrompt):
    """It goes on when a host's shell ends: Mininet's own waits for it for ever.

    `failed` are the commands of a script that failed: (number of its line, the line, what went wrong).
    """

    reaches_network = False

    def __init__(self, net: Any, script: Sequence[str] | None, watch: Watch) -> None:
        """Returns when the script is done, or whoever types has left; `watch` is over what the lab needs."""
        self._script, self._watch = script, watch
        self.failed: list[tuple[int, str, str]] = []
        super().__init__(net)

    def run(self) -> None:
        """Called by Mininet's own start."""
        if self._script is None:
            super().run()
            return
        for number, line in enumerate(self._script, 1):
            n_before = len(self.failures)
            is_last = self.onecmd(self.precmd(line))
            if reasons := self.failures[n_before:]:
                self.failed.append((number, line.strip(), reasons[0]))
            if is_last:
                break

    def onecmd(self, line: str) -> Any:
        """Whether it was the last command; says so if what the lab needs has died meanwhile."""
        is_last = super().onecmd(line)
        try:
            self._watch.wait([], 0)
        except RunFailed as failed:
            error(f"*** {failed}\n")
        return is_last

    def default(self, line: str) -> None:
        """`HOST COMMAND`: run it there, with other hosts' names as their addresses."""
        name, command, _ = self.parseline(line)
        if name not in self.mn or not command:
            super().default(line)
            return
        node = self.mn[name]
        text = " ".join(self._address(word) for word in command.split(" "))
        whole = (
            f"eval {shlex.quote(text)}"  # so that an open quote is an error and no shell waits for its end
        )
        node.sendCmd(whole + _PRINT_PID if text.endswith("&") else whole)
        self.waitForNode(node)
        if self._script is not None:
            self._note_status(node)

    def _address(self, word: str) -> str:
        if word not in self.mn or self.mn[word] not in self.mn.hosts:
            return word
        return self.mn[word].defaultIntf().updateIP() or word

    def _note_status(self, node: Any) -> None:
        status = _STATUS.search(node.cmd("echo gradwire-status=$?"))
        if status and status[1] != "0":
            self.fail(f"exit code {status[1]}")

    def waitForNode(self, node: Any) -> None:  # noqa: N802 - Mininet's name
        """Show the output of the node's command until it ends, and pass on what is typed.

        Raise ShellEnded.
        """
        poll, stdout = select.poll(), node.stdout.fileno()
        poll.register(stdout, select.POLLIN)
        typed = self.stdin.fileno() if self._script is None else None
        if typed is not None:
            poll.register(typed, select.POLLIN)
            if self.isatty():
                quietRun("stty -icanon min 1")  # each character at once
        while node.waiting:
            try:
                ready = {fd for fd, _ in poll.poll(LOOK_MS)}
                if typed is not None and typed in ready:
                    octets = os.read(typed, _TYPED_NBYTES)  # Python's own buffer would hide a pasted line
                    if octets:
                        os.write(node.stdin.fileno(), octets)
                    else:
                        poll.unregister(typed)
                if stdout in ready:
                    output(node.monitor())
                elif not ready:
                    node.check_shell()
            except KeyboardInterrupt:
                node.sendInt()
