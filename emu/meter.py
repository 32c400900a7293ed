"""What a machine does while a repeat is under way: counters read before, during and after."""

from collections.abc import Mapping
from contextlib import ExitStack

from gradwire.emu import sampler
from gradwire.emu.kernel.queues import Queues
from gradwire.emu.network.cables import Cables, Done
from gradwire.emu.otherprograms import Reading, host_proc, reading, used
from gradwire.emu.records import RepeatCounts
from gradwire.emu.stalls import Stalls
from gradwire.planning.machines.part import Part


class Meter:
    """Of one repeat: `begin` when its start is known, `end` when the last rank is done, then `counts`.

    `pids` are the agents here, by rank; `part` is what is here of a fabric on several machines.
    """

    def __init__(
        self,
        pids: Mapping[int, int],
        queues: Queues,
        stalls: Stalls,
        cables: Cables | None = None,
        part: Part | None = None,
    ) -> None:
        self._ranks = list(pids)
        self._queues, self._stalls, self._cables = queues, stalls, cables
        self._machine = part.machine if part else ""
        tunnels = {tunnel.interface for tunnel in part.tunnels} if part else set()
        self._samples = sampler.Samples(list(pids.values()), tunnels)
        self._sampling = ExitStack()
        self._read: list[sampler.Machine] = []
        self._programs: list[Reading] = []
        self._changes: list[Done] = []
        self._proc = host_proc()
        self._drops = queues.dropped()

    def begin(self, start_ns: int) -> None:
        """Returns at the start (CLOCK_MONOTONIC)."""
        self._note_programs()
        if self._cables:
            self._cables.begin(start_ns)
        self._sampling.enter_context(self._samples.taken())
        self._read.append(sampler.machine())
        self._read.append(sampler.machine_at(start_ns))

    def end(self) -> None:
        """Raise OSError if a cable could not be changed."""
        self._read.append(sampler.machine())
        self._note_programs()
        self._sampling.close()
        if self._cables:
            self._changes += self._cables.end()

    def close(self) -> None:
        """Take no more samples, whatever has happened."""
        self._sampling.close()

    def counts(self, start_ns: int, done_ns: int) -> RepeatCounts:
        """Between the common start and the last rank's end.

        For a repeat too short to measure the tenth of a second before it counts as well.
        """
        announced, started, after = self._read
        before = sampler.long_enough(announced, started, after)
        lost = {name: count - self._drops.get(name, 0) for name, count in self._queues.dropped().items()}
        stopped_s = self._samples.stops.stopped_s(start_ns, done_ns)
        return RepeatCounts(
            cpu_idle=sampler.cpu_idle(before, after),
            cpu_stolen=sampler.cpu_stolen(before, after),
            softnet_dropped=after.softnet_dropped - before.softnet_dropped,
            queue_dropped={name: count for name, count in lost.items() if count},
            stall_s=self._samples.longest_stall_s(start_ns, done_ns),
            cpu_lost_s=self._stalls.lost_s(start_ns, done_ns),
            stopped_s=dict(zip(self._ranks, stopped_s, strict=True)),
            link_rows=tuple(self._samples.rows()),
            changes=tuple(self._changes),
            others=used(self._proc, *self._programs) if self._proc is not None else (),
            machine=self._machine,
        )

    def _note_programs(self) -> None:
        if self._proc is not None:
            self._programs.append(reading(self._proc))
