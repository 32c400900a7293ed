"""What a command cannot do without, asked before it begins."""

import shutil

from emu.project import SWITCH_OBJECT, WORKER_LIBRARY
from tools.machine import is_root

OVS_TOOLS = ("ethtool", "ovs-vswitchd")
RUN_TOOLS = ("mnexec", "ip", "tc", "unshare", "setpriv", "nsenter")


def need_root_and_tools(command: str, switch: str = "gradwire", captures: bool = False) -> None:
    """Raise PermissionError or FileNotFoundError with what to do about it."""
    if not is_root():
        raise PermissionError(
            f"{command} makes network namespaces and needs root: sudo ./gradwire {command} …"
        )
    tools = RUN_TOOLS + (OVS_TOOLS if switch == "ovs" else ()) + (("tcpdump",) if captures else ())
    for tool in tools:
        if shutil.which(tool) is None:
            raise FileNotFoundError(f"{tool} is not installed: run sudo ./gradwire setup")
    for compiled in () if switch == "ovs" else (SWITCH_OBJECT, WORKER_LIBRARY):
        if not compiled.exists():
            raise FileNotFoundError(f"{compiled} is not compiled: run sudo ./gradwire setup")
