"""One rank of training by parameter servers, over torch.distributed's send and receive.

Ranks 0 to S-1 are servers, each with its cut of the parameters; the others are workers.  A worker pulls the
parameters, computes, and pushes its gradients.  Synchronous servers wait for everybody's push before
they answer; asynchronous ones apply and answer each push as it comes.
"""

from collections.abc import Callable
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from gradwire.emu.training.models import batch, build, loss
from gradwire.emu.training.options import TrainingOptions
from gradwire.emu.training.rank import EventLog, Slowness
from gradwire.traces.groundtruth import PULL_DONE, PUSH_BEGINS

LEARNING_RATE = 0.05
PULL, PUSH = 1, 2  # the tags of messages
BEGINS, ENDS, PUSHED = 1, 2, 7  # the log's events beside those that the check looks for


def train(options: TrainingOptions, rank: int, log_file: Path, began: Callable[[int], None]) -> None:
    """Serve or work, and write the rank's log; a worker calls `began` with each iteration's number."""
    log = EventLog()
    model = build(options.model, options.seed)
    parameters = parameters_to_vector(model.parameters()).detach().clone()
    if rank < options.servers:
        serve(options, _cut(parameters, rank, options.servers).clone())
    else:
        work(options, model, parameters, rank, log, began)
    role = "server" if rank < options.servers else "worker"
    about = {"servers": options.servers, "asynchronous": options.asynchronous}
    log.save(log_file, rank=rank, role=role, params=parameters.numel(), **about)
    dist.barrier()


def serve(options: TrainingOptions, mine: Tensor) -> None:
    """Give `mine` to every worker, and then for each push, or for each round of pushes, again."""
    workers = range(options.servers, dist.get_world_size())
    gradients = [torch.empty_like(mine) for _ in workers]
    _complete([dist.isend(mine, worker, tag=PULL) for worker in workers])
    if options.asynchronous:
        for _ in range(options.iterations * len(workers)):
            worker = dist.recv(gradients[0], None, tag=PUSH)
            mine -= LEARNING_RATE * gradients[0]
            dist.send(mine, worker, tag=PULL)
        return
    for _ in range(options.iterations):
        _complete(
            [
                dist.irecv(gradient, worker, tag=PUSH)
                for gradient, worker in zip(gradients, workers, strict=True)
            ]
        )
        mine -= LEARNING_RATE * torch.stack(gradients).mean(0)
        _complete([dist.isend(mine, worker, tag=PULL) for worker in workers])


def work(
    options: TrainingOptions,
    model: torch.nn.Module,
    parameters: Tensor,
    rank: int,
    log: EventLog,
    began: Callable[[int], None],
) -> None:
    servers = range(options.servers)
    nbytes = parameters.numel() * parameters.element_size()

    def pull() -> list[dist.Work]:
        cuts = [_cut(parameters, server, options.servers) for server in servers]
        return [dist.irecv(cut, server, tag=PULL) for server, cut in zip(servers, cuts, strict=True)]

    slowness = Slowness(options.factor(rank))
    generator = torch.Generator().manual_seed(1000 * (options.seed + 1) + rank)
    _complete(pull())
    for iteration in range(options.iterations):
        slowness.begin()
        vector_to_parameters(parameters.clone(), model.parameters())
        began(iteration)
        log.note(BEGINS, iteration, n=0)
        model.zero_grad()
        loss(model, *batch(options.model, options.batch, generator)).backward()
        gradients = torch.cat([p.grad.reshape(-1) for p in model.parameters() if p.grad is not None])
        slowness.pause()
        log.note(PUSH_BEGINS, iteration, n=nbytes)
        pushes = [
            dist.isend(_cut(gradients, server, options.servers), server, tag=PUSH) for server in servers
        ]
        # gloo sends nothing that is not waited for: asynchronous servers, each answering another worker that
        # still pushes to the next one, would wait in a circle if pulls were asked for after the pushes.
        pulls = pull()
        _complete(pushes)
        log.note(PUSHED, iteration, n=0)
        _complete(pulls)
        log.note(PULL_DONE, iteration, n=nbytes)
        log.note(ENDS, iteration, n=0)


def _cut(vector: Tensor, server: int, n_servers: int) -> Tensor:
    """The server's part of all parameters: from n·s/S to n·(s+1)/S."""
    n = vector.numel()
    return vector[n * server // n_servers : n * (server + 1) // n_servers]


def _complete(requests: list[dist.Work]) -> None:
    for request in requests:
        request.wait()
