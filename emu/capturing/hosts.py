"""How a program finds the hosts: their names, its own settings, and a command to reach another host.

Texts and commands; `lay_out` alone writes them, into the run's own namespaces.
"""

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from gradwire.emu.kernel.isolate import PRIVATE
from gradwire.emu.kernel.namespaces import enter
from gradwire.emu.network.net import NetworkFailed
from gradwire.planning.fabrics.fabric import HOST_PORT, Fabric, interface
from gradwire.traces.framing.setups import STORE_PORT

RSH = PRIVATE / "rsh"
_PIDS, _NAMES = PRIVATE / "pids", PRIVATE / "hosts"
_PREFIX_LENGTH = 16

# In the run's mount namespace, so that it is nobody else's; a host's name is for what asks `hostname`.
_AS_HOST = 'hostname "$0" && exec "$@"'

_RSH_TEXT = f"""#!/bin/sh
# rsh HOST COMMAND...: runs the command on that host of the fabric, as ssh would; ssh's options are ignored.
while [ "${{1#-}}" != "$1" ]; do shift; done
host=$1
shift
read -r pid 2>/dev/null <"{_PIDS}/$host" || {{ echo "rsh: no host $host on this fabric" >&2; exit 255; }}
exec nsenter --net="/proc/$pid/ns/net" -- unshare --uts -- sh -c 'hostname "$0"; exec sh -c "$*"' "$host" "$@"
"""


def names_text(fabric: Fabric, machine: str) -> str:
    """An /etc/hosts with which nobody waits for a resolver."""
    lines = ["127.0.0.1 localhost"]
    for host in fabric.hosts:
        lines += [
            f"{fabric.ip(host)} {host}",
            f"::ffff:{fabric.ip(host)} {host}",
        ]  # the second is what a dual-stack socket asks
    return "\n".join([*lines, f"127.0.1.1 {machine}"]) + "\n"


def lay_out(fabric: Fabric, pid_of: Mapping[str, int]) -> None:
    """The private /etc/hosts and the rsh helper.  Raise NetworkFailed."""
    _NAMES.write_text(names_text(fabric, os.uname().nodename))
    mounted = subprocess.run(
        ["mount", "--bind", str(_NAMES), "/etc/hosts"], capture_output=True, text=True, check=False
    )
    if mounted.returncode:
        raise NetworkFailed(f"mount --bind over /etc/hosts: {mounted.stderr.strip()}")
    _PIDS.mkdir()
    for host, pid in pid_of.items():
        (_PIDS / host).write_text(f"{pid}\n")
    RSH.write_text(_RSH_TEXT)
    RSH.chmod(0o755)


def on_host(host: str, pid: int, command: tuple[str, ...]) -> list[str]:
    """The command that runs `command` on the host, under the host's name."""
    return [*enter(pid), "unshare", "--uts", "--", "sh", "-c", _AS_HOST, host, *command]


def rank_environment(
    fabric: Fabric, used: Sequence[str], rank: int, folder: Path, base: Mapping[str, str]
) -> dict[str, str]:
    """What torch.distributed's env:// reads, and what else a script may want to know of where it runs.

    `used` are the hosts of the job's ranks.
    """
    host = used[rank]
    port = interface(host, HOST_PORT)
    return {
        **shared_environment(fabric, used, folder, base),
        "RANK": str(rank),
        "WORLD_SIZE": str(len(used)),
        "LOCAL_RANK": "0",
        "LOCAL_WORLD_SIZE": "1",
        "NODE_RANK": str(rank),
        "GLOO_SOCKET_IFNAME": port,
        "TP_SOCKET_IFNAME": port,
        "GRADWIRE_HOST": host,
        "GRADWIRE_ADDRESS": fabric.ip(host),
        "GRADWIRE_INTERFACE": port,
        "GRADWIRE_LOG": str(folder / f"log.r{rank}.json"),
    }


def once_environment(
    fabric: Fabric, used: Sequence[str], folder: Path, base: Mapping[str, str]
) -> dict[str, str]:
    """For a launcher on the first host: where the others are, in Open MPI's own words too."""
    network = f"{fabric.ip(used[0])}/{_PREFIX_LENGTH}"
    return {
        **shared_environment(fabric, used, folder, base),
        "GRADWIRE_HOST": used[0],
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "OMPI_MCA_plm": "rsh",
        "OMPI_MCA_plm_rsh_agent": str(RSH),
        "OMPI_MCA_plm_rsh_no_tree_spawn": "1",
        "OMPI_MCA_orte_default_hostfile": str(hostfile(used)),
        "OMPI_MCA_oob_tcp_if_include": network,
        "OMPI_MCA_btl_tcp_if_include": network,
        "OMPI_MCA_pml": "ob1",
        "OMPI_MCA_btl": "self,tcp",
        "OMPI_MCA_mpi_yield_when_idle": "1",
        "OMPI_MCA_hwloc_base_binding_policy": "none",
    }


def hostfile(used: Sequence[str]) -> Path:
    """mpirun's list of hosts, a rank on each; one for each job."""
    path = PRIVATE / f"hostfile-{used[0]}"
    path.write_text("".join(f"{host} slots=1\n" for host in used))
    return path


def shared_environment(
    fabric: Fabric, used: Sequence[str], folder: Path, base: Mapping[str, str]
) -> dict[str, str]:
    return {
        **base,
        "MASTER_ADDR": fabric.ip(used[0]),
        "MASTER_PORT": str(STORE_PORT),
        "GRADWIRE_HOSTS": ",".join(used),
        "GRADWIRE_RSH": str(RSH),
        "GRADWIRE_FOLDER": str(folder),
    }
