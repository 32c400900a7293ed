"""python -m gradwire.tools COMMAND...: the program that ./gradwire starts."""

import gc
import signal
import sys

from gradwire.tools.cli import main
from gradwire.tools.exits import report

# New objects after which Python looks for unreachable ones.  Nearly all of a command's, its modules to begin
# with, live to its end; to walk them after every 700 took 6 % of an inspect.
COLLECT_AFTER = 100_000


def run() -> None:
    gc.set_threshold(COLLECT_AFTER)
    # A polite kill takes everything down as Ctrl-C does: what was started is stopped on the way out.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.default_int_handler)
    try:
        main(sys.argv[1:])
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - outside a command, e.g. importing it
        sys.exit(report(error))


if __name__ == "__main__":
    run()
