"""python -m tools COMMAND...: what ./gradwire starts."""

import signal
import sys

from tools.cli import main
from tools.exits import report


def run() -> None:
    # A polite kill takes everything down as Ctrl-C does: what was started is stopped on the way out.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.default_int_handler)
    try:
        main(sys.argv[1:])
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - outside a command, e.g. importing it
        sys.exit(report(error))


if __name__ == "__main__":
    run()
