"""A fabric with its controller and Mininet's own prompt, inside namespaces of its own.

`python -m emu.prompt OPTIONS`, as JSON: `fabric`, `switch`, and `script` with commands for the prompt, null
to type them.
"""

import json
import sys
from collections import Counter

from mininet.cli import CLI
from mininet.log import setLogLevel

from emu.controlplane import control_plane
from emu.fabrics.spec import parse_fabric
from emu.network.isolate import PRIVATE
from emu.network.net import NetworkFailed, emulated, prepare_namespace
from emu.network.transport import fabric_transport
from emu.watch import RunFailed, Watch


def main(options: dict[str, str | None]) -> None:
    assert options["fabric"]
    assert options["switch"]
    fabric = parse_fabric(options["fabric"])
    prepare_namespace()
    offload = options["switch"] != "ovs"
    with (
        control_plane(fabric, options["switch"], PRIVATE) as plane,
        emulated(fabric, fabric_transport(fabric), Counter(), offload) as net,
        plane.in_force(Watch()),
    ):
        print(f"{fabric.spec} is up: {len(fabric.hosts)} hosts, {len(fabric.switches)} switches", flush=True)
        setLogLevel("output")
        CLI(net, script=options["script"])


if __name__ == "__main__":
    try:
        main(json.loads(sys.argv[1]))
    except (RunFailed, NetworkFailed, OSError) as error:
        print(f"gradwire: {error}", file=sys.stderr)
        sys.exit(1)
