"""What ssh does, for tests: `rsh.py serve SOCKET` runs what `rsh.py SOCKET [OPTION...] HOST LINE` asks for.

Whoever asks hands over its own stdin, stdout and stderr, so the server's namespaces are all that differs.
"""

import os
import socket
import subprocess
import sys
from contextlib import suppress

_MOST_NBYTES = 1 << 16


def serve(path: str) -> None:
    """One process for each that asks, until killed."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as server:
        server.bind(path)
        server.listen()
        while True:
            asking, _ = server.accept()
            if os.fork() == 0:
                _run(asking)
            asking.close()


def _run(asking: socket.socket) -> None:
    line, fds, _, _ = socket.recv_fds(asking, _MOST_NBYTES, 3)
    stdin, stdout, stderr = fds
    done = subprocess.run(["sh", "-c", line.decode()], stdin=stdin, stdout=stdout, stderr=stderr, check=False)
    with suppress(BrokenPipeError):  # who asked has gone
        asking.send(str(done.returncode).encode())
    os._exit(0)


def ask(path: str, line: str) -> int:
    """The exit code of the line, which the server's shell runs."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as asking:
        asking.connect(path)
        socket.send_fds(asking, [line.encode()], [0, 1, 2])
        return int(asking.recv(_MOST_NBYTES) or 255)


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve(sys.argv[2])
    else:
        sys.exit(ask(sys.argv[1], sys.argv[-1]))
