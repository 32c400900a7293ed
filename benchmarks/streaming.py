"""Reads a capture block by block: prints its packets, the seconds that took, and the peak memory in KiB.

A process of its own for `benchmarks.reader`, so that the peak is of the reading alone.
"""

import sys
from pathlib import Path
from time import perf_counter

from gradwire.traces.packets.capture import packet_blocks


def main(path: Path) -> None:
    begin = perf_counter()
    count = sum(len(packets) for packets in packet_blocks(path))
    seconds = perf_counter() - begin
    status = Path("/proc/self/status").read_text().splitlines()
    (peak_kib,) = (line.split()[1] for line in status if line.startswith("VmHWM"))
    print(count, seconds, peak_kib)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
