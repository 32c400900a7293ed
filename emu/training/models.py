"""The three models of the built-in jobs, with their parameters in the order of the original models.

DDP fills its buckets in that order, so the buckets are the original ones.
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional

CLASSES = 10
PIXELS = 8  # the digits' side length
IMAGE = 32  # what a ResNet is shown
VOCABULARY, CONTEXT, WIDTH, LAYERS, HEADS = 8192, 128, 384, 6, 6
TOKENS = 64  # of one sequence


def build(name: str, seed: int) -> nn.Module:
    """A model with random parameters, the same for the same seed."""
    torch.manual_seed(seed)
    makers: dict[str, Callable[[], nn.Module]] = {"mlp": mlp, "resnet18": ResNet18, "gpt": Gpt}
    return makers[name]()


def batch(name: str, size: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Made-up samples of the right shape, and their labels; of the GPT one sequence, whatever the size."""
    if name == "gpt":
        tokens = torch.randint(256, (1, TOKENS + 1), generator=generator)
        return tokens[:, :-1], tokens[:, 1:].reshape(-1)
    shape = (size, 3, IMAGE, IMAGE) if name == "resnet18" else (size, 1, PIXELS, PIXELS)
    return torch.rand(shape, generator=generator), torch.randint(CLASSES, (size,), generator=generator)


def loss(model: nn.Module, inputs: Tensor, labels: Tensor) -> Tensor:
    return functional.cross_entropy(model(inputs), labels)


def mlp() -> nn.Module:
    """Digits to classes over two hidden layers of 256."""
    return nn.Sequential(
        nn.Flatten(),
        nn.Linear(PIXELS * PIXELS, 256),
        nn.ReLU(),
        nn.Linear(256, 256),
        nn.ReLU(),
        nn.Linear(256, CLASSES),
    )


class Residual(nn.Module):
    """ResNet's basic block: two 3×3 convolutions, and a shortcut around them (He et al., 2015)."""

    def __init__(self, before: int, after: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(before, after, 3, stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(after)
        self.conv2 = nn.Conv2d(after, after, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(after)
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or before != after:
            self.shortcut = nn.Sequential(
                nn.Conv2d(before, after, 1, stride, bias=False), nn.BatchNorm2d(after)
            )

    def forward(self, inputs: Tensor) -> Tensor:
        hidden = functional.relu(self.bn1(self.conv1(inputs)))
        return functional.relu(self.bn2(self.conv2(hidden)) + self.shortcut(inputs))


class ResNet18(nn.Module):
    """He et al.'s 18 layers, for ten classes."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 64, 7, stride=2, padding=3, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        widths = (64, 64, 128, 256, 512)
        stages = [
            nn.Sequential(Residual(before, after, stride), Residual(after, after, 1))
            for before, after, stride in zip(widths, widths[1:], (1, 2, 2, 2), strict=False)
        ]
        self.stages = nn.Sequential(*stages)
        self.fc = nn.Linear(widths[-1], CLASSES)

    def forward(self, inputs: Tensor) -> Tensor:
        hidden = functional.relu(self.bn1(self.conv1(inputs)))
        hidden = self.stages(functional.max_pool2d(hidden, 3, stride=2, padding=1))
        return self.fc(functional.adaptive_avg_pool2d(hidden, 1).flatten(1))


class Block(nn.Module):
    """GPT-2's transformer block: attention to what came before, then a perceptron four times as wide."""

    def __init__(self) -> None:
        super().__init__()
        self.ln1 = nn.LayerNorm(WIDTH)
        self.attention = nn.Linear(WIDTH, 3 * WIDTH)
        self.projection = nn.Linear(WIDTH, WIDTH)
        self.ln2 = nn.LayerNorm(WIDTH)
        self.wide = nn.Linear(WIDTH, 4 * WIDTH)
        self.narrow = nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, inputs: Tensor) -> Tensor:
        n_sequences, n_tokens, _ = inputs.shape
        parts = self.attention(self.ln1(inputs)).view(n_sequences, n_tokens, 3, HEADS, WIDTH // HEADS)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        attended = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        hidden = inputs + self.projection(attended.transpose(1, 2).reshape(n_sequences, n_tokens, WIDTH))
        return hidden + self.narrow(functional.gelu(self.wide(self.ln2(hidden))))


class Gpt(nn.Module):
    """GPT-2's shape, 6 layers of 384; a token's embedding is also its row of the output."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, WIDTH)
        self.positions = nn.Embedding(CONTEXT, WIDTH)
        self.blocks = nn.Sequential(*(Block() for _ in range(LAYERS)))
        self.ln = nn.LayerNorm(WIDTH)
        for table in (self.tokens, self.positions):
            nn.init.normal_(table.weight, std=0.02)

    def forward(self, inputs: Tensor) -> Tensor:
        hidden = self.tokens(inputs) + self.positions.weight[: inputs.shape[1]]
        logits = functional.linear(self.ln(self.blocks(hidden)), self.tokens.weight)
        return logits.view(-1, VOCABULARY)
