"""A fabric with its controller and Mininet's prompt, in namespaces of its own.

`python -m gradwire.emu.prompt OPTIONS`, as JSON: `fabric`, `switch`, and `is_script`: whether stdin has
commands for the prompt, else somebody types them.
"""

import json
import select
import sys
from collections.abc import Sequence
from typing import Any

from mininet.cli import CLI
from mininet.log import error, output, setLogLevel
from mininet.util import quietRun

from gradwire.emu.emulation import in_force
from gradwire.emu.lifecycle import errors_in_one_line
from gradwire.emu.network.isolate import PRIVATE
from gradwire.emu.network.net import emulated
from gradwire.emu.network.nodes import LOOK_MS, ShellEnded
from gradwire.planning.fabrics.spec import parse_fabric
from gradwire.planning.transport import fabric_transport


class Prompt(CLI):  # type: ignore[misc]
    """Mininet's prompt, which goes on when a host's shell ends: Mininet's own waits for it for ever."""

    def __init__(self, net: Any, script: Sequence[str] | None) -> None:
        """Returns when the script is done, or whoever types has left."""
        self._script = script
        super().__init__(net)

    def run(self) -> None:
        """Called by Mininet's own start."""
        if self._script is None:
            super().run()
            return
        for line in self._script:
            if self.onecmd(self.precmd(line)):
                break

    def onecmd(self, line: str) -> Any:
        """Whether it was the last command."""
        try:
            return super().onecmd(line)
        except ShellEnded as ended:
            error(f"*** {ended}\n")
            return None

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
                if typed in ready:
                    key = self.stdin.read(1)
                    if key:
                        node.write(key)
                    else:
                        poll.unregister(typed)
                if stdout in ready:
                    output(node.monitor())
                elif not ready:
                    node.check_shell()
            except KeyboardInterrupt:
                node.sendInt()


def main(options: dict[str, Any]) -> None:
    fabric = parse_fabric(options["fabric"])
    script = sys.stdin.read().splitlines() if options["is_script"] else None
    network = emulated(fabric, fabric_transport(fabric), None, options["switch"] != "ovs")
    with in_force(network, fabric, options["switch"], PRIVATE) as emulation:
        print(f"{fabric.spec} is up: {len(fabric.hosts)} hosts, {len(fabric.switches)} switches", flush=True)
        setLogLevel("output")
        Prompt(emulation.net, script)


if __name__ == "__main__":
    with errors_in_one_line("gradwire: "):
        main(json.loads(sys.argv[1]))
