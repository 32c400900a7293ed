"""One rank of data-parallel training: PyTorch's DistributedDataParallel over gloo, logging its buckets."""

from collections.abc import Callable
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn

from gradwire.emu.training.models import batch, build, loss
from gradwire.emu.training.options import TrainingOptions
from gradwire.emu.training.rank import EventLog, Slowness
from gradwire.traces.groundtruth import BUCKET_DONE, BUCKET_READY

LEARNING_RATE = 0.05


def train(options: TrainingOptions, rank: int, log_file: Path, began: Callable[[int], None]) -> None:
    """Train, and write the rank's log; `began` is called with each iteration's number."""
    log = EventLog()
    world = dist.get_world_size()
    model = build(options.model, options.seed)
    parallel = nn.parallel.DistributedDataParallel(model, bucket_cap_mb=options.bucket_mib)
    log.note("ddp1", -1)
    current = 0

    slowness = Slowness(options.factor(rank))

    def hook(state: None, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
        """What DDP does without a hook, and two lines in the log."""
        del state
        slowness.pause()
        buffer, iteration, index = bucket.buffer(), current, bucket.index()
        log.note(BUCKET_READY, iteration, b=index, n=buffer.numel() * buffer.element_size())
        buffer.div_(world)

        def done(future: torch.futures.Future[list[torch.Tensor]]) -> torch.Tensor:
            log.note(BUCKET_DONE, iteration, b=index)
            return future.value()[0]

        return dist.all_reduce(buffer, async_op=True).get_future().then(done)

    parallel.register_comm_hook(None, hook)
    optimizer = torch.optim.SGD(parallel.parameters(), lr=LEARNING_RATE)
    generator = torch.Generator().manual_seed(1000 * (options.seed + 1) + rank)
    value = torch.zeros(())
    for current in range(options.iterations):
        inputs, labels = batch(options.model, options.batch, generator)
        began(current)
        log.note("iter0", current)
        slowness.begin()
        optimizer.zero_grad()
        value = loss(parallel, inputs, labels)
        log.note("fwd1", current)
        value.backward()
        log.note("bwd1", current)
        slowness.begin()  # what is before was waiting for the last bucket
        optimizer.step()
        slowness.pause()
        log.note("iter1", current)
    n_parameters = sum(parameter.numel() for parameter in model.parameters())
    about = {"rank": rank, "world": world, "model": options.model, "params": n_parameters}
    log.save(log_file, **about, loss=value.item())
