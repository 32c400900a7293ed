"""A fabric with its controller and Mininet's own prompt, inside namespaces of its own.

`python -m emu.prompt FOLDER` reads `options.json`: `fabric`, `switch`, and `script` with commands for the
prompt, null to type them.
"""

import json
import sys
from collections import Counter
from pathlib import Path

from mininet.cli import CLI
from mininet.log import setLogLevel

from emu.net import NetworkFailed, emulated, prepare_namespace
from emu.session import control_plane
from emu.spec import parse_fabric
from emu.transport import fabric_transport
from emu.watch import RunFailed, Watch


def main(folder: Path) -> None:
    options = json.loads((folder / "options.json").read_text())
    fabric = parse_fabric(options["fabric"])
    prepare_namespace()
    offload = options["switch"] != "ovs"
    with (
        emulated(fabric, fabric_transport(fabric), Counter(), offload) as net,
        control_plane(fabric, options["switch"], folder, Watch(), plan=False),
    ):
        print(f"{fabric.spec} is up: {len(fabric.hosts)} hosts, {len(fabric.switches)} switches", flush=True)
        setLogLevel("output")
        CLI(net, script=options["script"])


if __name__ == "__main__":
    try:
        main(Path(sys.argv[1]))
    except (RunFailed, NetworkFailed, OSError) as error:
        print(f"gradwire: {error}", file=sys.stderr)
        sys.exit(1)
