"""How far pruning moves the next token: the pruned model's distribution held against the dense one's.

On weights that were never trained this says how much of what the dense model computes is left, and nothing of answers.
"""

from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass, fields, replace
from typing import Any

import torch
from torch import Tensor

from trio_core.method import Method
from trio_core.pruning import prune
from trio_profile.schema import Fidelity
from trio_profile.workload import Workload

SEEDS = 3
"""A method that draws is tried with so many seeds; one draw says little of it."""


@dataclass(frozen=True)
class Reference:
    """What the dense model says: the workload once for each picture, and [B, V] log-probabilities of its next token."""

    workloads: tuple[Workload, ...]
    dense: tuple[Tensor, ...]


def reference(workload: Workload, pictures: int, seed: int) -> Reference:
    """Run the dense model on the workload's own picture, and on pictures drawn from the seed, `pictures` in all."""
    generator = torch.Generator().manual_seed(seed)
    workloads = (workload, *(workload.redrawn(generator) for _ in range(pictures - 1)))
    return Reference(workloads, tuple(_next_token(one, None) for one in workloads))


def measure(method: Method, against: Reference) -> Fidelity:
    """Prune each picture's prefill. A sample of a batch counts as a picture."""
    kl: list[float] = []
    top1: list[bool] = []
    for one in _seeds(method):
        for workload, dense in zip(against.workloads, against.dense, strict=True):
            pruned = _next_token(workload, one)
            # Rounding may leave a divergence of nothing just below it.
            kl += (dense.exp() * (dense - pruned)).sum(dim=-1).clamp_min(0).tolist()
            top1 += (dense.argmax(dim=-1) == pruned.argmax(dim=-1)).tolist()
    return Fidelity(kl_nats=tuple(kl), top1=tuple(top1))


def _seeds(method: Method) -> Iterator[Method]:
    if "seed" not in {field.name for field in fields(method)}:
        yield method
        return
    drawn: Any = method
    for seed in range(SEEDS):
        yield replace(drawn, seed=drawn.seed + seed)


def _next_token(workload: Workload, method: Method | None) -> Tensor:
    with nullcontext() if method is None else prune(workload.model, method):
        logits = workload.prefill(use_cache=False).logits[:, -1]
    return logits.double().log_softmax(dim=-1)
