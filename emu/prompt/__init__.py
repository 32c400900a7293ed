"""The prompt of a fabric, in namespaces of its own: `python -m gradwire.emu.prompt`."""

SAID_WHY = 10  # exit code after a line on stderr that says why; 1 is unshare's, and Python's for a bug
INTERRUPTED = 130  # exit code after a Ctrl-C while the network was built or taken down
