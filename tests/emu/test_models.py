"""The built-in jobs' models are those that they are named after."""

from importlib.util import find_spec

import pytest

from gradwire.emu.training.options import MODELS

# Imported by the tests themselves: it takes seconds, which every collection of all tests would wait.
pytestmark = pytest.mark.skipif(
    find_spec("torch") is None, reason="needs PyTorch: sudo ./gradwire setup --live"
)


@pytest.mark.parametrize("name", MODELS)
def test_a_model_has_the_parameters_of_the_real_one(name: str) -> None:
    """torchvision's resnet18 with ten classes; transformers' GPT-2, 6 layers of 384, vocabulary of 8192."""
    from gradwire.emu.training.models import build

    assert sum(parameter.numel() for parameter in build(name, 0).parameters()) == MODELS[name]


@pytest.mark.parametrize(
    ("name", "nbytes"),
    [  # what PyTorch's DDP made of torchvision's and transformers' models, seen on the wire
        ("resnet18", [9_461_800, 26_494_976, 8_769_792]),
        ("gpt", [2_363_904, 28_391_424, 24_614_400]),
    ],
)
def test_ddp_cuts_a_model_into_the_buckets_of_the_real_one(name: str, nbytes: list[int]) -> None:
    import torch

    from gradwire.emu.training.models import build

    parameters = list(reversed(list(build(name, 0).parameters())))  # gradients are ready from the last on
    buckets, _ = torch._C._distributed_c10d._compute_bucket_assignment_by_size(
        parameters, [1 << 20, 25 << 20], [False] * len(parameters)
    )
    assert [4 * sum(parameters[i].numel() for i in bucket) for bucket in buckets] == nbytes


def test_the_same_seed_makes_the_same_job_and_another_makes_another() -> None:
    import torch

    from gradwire.emu.training.models import batch, build, loss

    def value(seed: int) -> float:
        generator = torch.Generator().manual_seed(seed)
        return float(loss(build("mlp", seed), *batch("mlp", 16, generator)).item())

    assert value(1) == value(1)
    assert value(1) != value(2)
