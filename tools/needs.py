"""What a command cannot do without, asked before it begins."""

import shutil

from emu.project import SWITCH_OBJECT
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
    if switch != "ovs" and not SWITCH_OBJECT.exists():
        raise FileNotFoundError(f"{SWITCH_OBJECT} is not compiled: run sudo ./gradwire setup")
