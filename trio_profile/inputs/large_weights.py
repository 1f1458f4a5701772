"""Random weights for a large model on a CPU, in seconds instead of minutes.

transformers draws every weight twice. Here a block of normal numbers is drawn once, and the large tensors are filled
with pieces of this block. What remains is the time of the first access to the memory.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from transformers import PreTrainedModel
from transformers.initialization import no_init_weights

LARGE = 10**9
"""The least parameters of a large model. Smaller models get all weights from transformers."""
BLOCK = 4_194_301
"""How many numbers the block has. It is a prime."""
PIECE = 1_048_573
"""How many numbers a piece has at most. It is a prime, so that pieces rarely begin where the rows of a tensor begin."""


def with_large_weights(make: Callable[[], PreTrainedModel], seed: int) -> PreTrainedModel:
    """Return the model of `make`, with random weights of the distribution that its transformers class prescribes.

    A tensor of more than PIECE normal numbers is filled with pieces of one block, so the same numbers occur again in
    other places. transformers makes all other tensors. The same seed gives the same weights. Torch's random state is
    another one afterwards.

    make: builds the model on the CPU, in its final dtype. Its weights are left empty at first.
    seed: of all weights.
    """
    with no_init_weights():
        model = make()
    torch.manual_seed(seed)
    with _Pieces():
        model.init_weights()
    return model


class _Pieces(TorchDispatchMode):
    """Where torch would draw a large normal tensor, fill it with pieces of one block."""

    def __init__(self) -> None:
        super().__init__()
        self.block = torch.randn(BLOCK, dtype=torch.float32)
        self.scaled: dict[tuple[float, float, torch.dtype], Tensor] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        """Run one operation of torch."""
        is_normal = func is torch.ops.aten.normal_.default
        if not is_normal or args[0].numel() <= PIECE or not args[0].is_contiguous():
            return func(*args, **(kwargs or {}))
        mean, std = (*args[1:], *(0.0, 1.0)[len(args) - 1 :])
        self._fill(args[0].detach().view(-1), float(mean), float(std))
        return args[0]

    def _fill(self, numbers: Tensor, mean: float, std: float) -> None:
        """Fill a vector with pieces that begin at random places of the block."""
        key = mean, std, numbers.dtype
        if key not in self.scaled:
            self.scaled[key] = (self.block * std + mean).to(numbers.dtype)
        source, pieces = self.scaled[key], numbers.split(PIECE)
        begins = torch.randint(BLOCK - PIECE + 1, (len(pieces),)).tolist()
        for piece, begin in zip(pieces, begins, strict=True):
            piece.copy_(source[begin : begin + len(piece)])
