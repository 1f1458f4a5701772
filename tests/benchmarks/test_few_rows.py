"""The backward pass of a few rows in bfloat16 on a CPU: in blocks, beside torch's own. Below 1, blocks are faster."""

import pytest
import torch
from torch import Tensor, nn

from trio_core.rules.few_rows import fast_backward_of_few_rows


@pytest.mark.benchmark(group="backward of four rows in bfloat16, blocks beside torch's own")
@pytest.mark.parametrize(("inputs", "outputs"), [(4096, 4096), (4096, 11008), (11008, 4096), (4096, 32064)])
def test_blocks_over_torchs_own(benchmark, interleaved, inputs: int, outputs: int):
    """The linear layers of LLaVA-1.5-7B. Three weights take turns, so that none stays in a cache."""
    layers = [nn.Linear(inputs, outputs, bias=False, dtype=torch.bfloat16) for _ in range(3)]
    values = torch.randn(4, inputs).bfloat16().requires_grad_()
    with fast_backward_of_few_rows(values):
        blocks = [layer(values) for layer in layers]
    own = [layer(values) for layer in layers]
    slope = torch.randn(4, outputs).bfloat16()

    def backward(results: list[Tensor]) -> None:
        for result in results:
            torch.autograd.grad(result, values, slope, retain_graph=True)

    benchmark.extra_info.update(blocks_over_own=interleaved(lambda: backward(own), lambda: backward(blocks), 21))
