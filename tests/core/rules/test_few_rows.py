"""The backward pass of few rows in blocks, against torch's own."""

import pytest
import torch
from torch import Tensor, nn

from trio_core.rules import few_rows
from trio_core.rules.few_rows import fast_backward_of_few_rows


@pytest.fixture(autouse=True)
def small_weights_count(monkeypatch):
    monkeypatch.setattr(few_rows, "_LARGE", 1)


def drawn(*shape: int, dtype: torch.dtype = torch.bfloat16) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0)).to(dtype)


def through(layer: nn.Module, values: Tensor, *, fast: bool) -> tuple[Tensor, Tensor, str]:
    """The output, the gradient of half its sum of squares, and the name of the operator that made the output."""
    probed = values.clone().requires_grad_()
    if fast:
        with fast_backward_of_few_rows(values):
            output = layer(probed)
    else:
        output = layer(probed)
    (gradient,) = torch.autograd.grad(output, probed, output.detach())
    return output.detach(), gradient, output.grad_fn.name()


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("rows", [(1, 2), (2, 8)])
@pytest.mark.parametrize("width", [512, 960])
def test_blocks_give_the_gradient_of_the_whole(width, rows, bias):
    layer = nn.Linear(96, width, bias=bias, dtype=torch.bfloat16)
    values = drawn(*rows, 96)
    output, ours, made_by = through(layer, values, fast=True)
    assert "_Linear" in made_by
    assert torch.equal(output, through(layer, values, fast=False)[0])
    exact = through(layer.float(), values.float(), fast=False)[1]
    assert (ours.float() - exact).norm() / exact.norm() < 0.01


def test_all_else_runs_as_it_is():
    for width, rows, dtype in (
        (512, 1, torch.bfloat16),
        (512, 4, torch.float32),
        (64, 4, torch.bfloat16),
        (509, 4, torch.bfloat16),  # a prime number has no blocks
    ):
        layer, values = nn.Linear(96, width, dtype=dtype), drawn(rows, 96, dtype=dtype)
        fast, plain = through(layer, values, fast=True), through(layer, values, fast=False)
        assert fast[2] == plain[2]
        assert torch.equal(fast[1], plain[1])
