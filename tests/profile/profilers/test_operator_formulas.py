"""Work of operators that torch cannot count, against SDPA's own count and a loop over sequences."""

from collections.abc import Callable, Iterator
from itertools import pairwise

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode, sdpa_backward_flop_count, sdpa_flop_count

from trio_profile.profilers import operator_formulas as formulas
from trio_profile.profilers.operator_formulas import supplied

Q, K = (2, 6, 7, 16), (2, 3, 9, 16)
"""Batch, heads, tokens, width: grouped keys."""
FORWARD, BACKWARD = sdpa_flop_count(Q, K, K), sdpa_backward_flop_count(Q, Q, K, K)


@pytest.fixture
def flash() -> Iterator[None]:
    """The flash-attention package's operators by name and arguments, for as long as a test runs."""
    filled = "Tensor out, Tensor lse, Tensor? dq, Tensor? dk, Tensor? dv"
    packed = "Tensor cu_q, Tensor cu_k"
    library = torch.library.Library("flash_attn", "FRAGMENT")
    for name, arguments in {
        "_flash_attn_forward": "Tensor q, Tensor k, Tensor v, float dropout_p, float softmax_scale, bool causal",
        "_flash_attn_varlen_forward": f"Tensor q, Tensor k, Tensor v, {packed}, int max_q, int max_k",
        "_flash_attn_backward": f"Tensor dout, Tensor q, Tensor k, Tensor v, {filled}",
        "_flash_attn_varlen_backward": f"Tensor dout, Tensor q, Tensor k, Tensor v, {filled}, {packed}",
    }.items():
        library.define(f"{name}({arguments}) -> Tensor")
        library.impl(name, lambda q, *_, **__: torch.empty_like(q), "CPU")
    yield
    library._destroy()


def counted(run: Callable[[], object]) -> int:
    with FlopCounterMode(display=False, custom_mapping=supplied()) as counter:
        run()
    return counter.get_total_flops()


def test_without_the_packages_only_what_is_there_is_supplied():
    assert {str(op) for op in supplied()} == {
        "aten._scaled_dot_product_flash_attention_for_cpu",
        "aten._scaled_dot_product_flash_attention_for_cpu_backward",
    }


def test_grouped_keys_are_counted_where_torch_refuses_them(monkeypatch):
    """As in torch 2.11, whose formula takes no keys of fewer heads."""

    def refuses(query, key, _value):
        assert query[1] == key[1]

    monkeypatch.setattr(formulas, "sdpa_flop_count", refuses)
    formula_of = {str(op): formula for op, formula in supplied().items()}
    q, k = torch.zeros(Q), torch.zeros(K)
    for kernel in ("flash", "efficient", "cudnn"):
        name = f"aten._scaled_dot_product_{kernel}_attention"
        assert (formula_of[name](q, k, k), formula_of[f"{name}_backward"](q, q, k, k)) == (FORWARD, BACKWARD)


@pytest.mark.usefixtures("flash")
def test_flash_attention_counts_as_sdpa_does():
    ops = torch.ops.flash_attn
    q, k = torch.zeros(Q).transpose(1, 2), torch.zeros(K).transpose(1, 2)
    assert counted(lambda: ops._flash_attn_forward(q, k, k, 0.0, 1.0, True)) == FORWARD > 0
    assert counted(lambda: ops._flash_attn_backward(q, q, k, k, q, q, None, None, None)) == BACKWARD


@pytest.mark.usefixtures("flash")
def test_packed_sequences_are_counted_one_by_one():
    ends_q, ends_k = [0, 3, 10, 11], [0, 5, 12, 16]
    q, k = torch.zeros(11, 6, 16), torch.zeros(16, 3, 16)
    cu_q, cu_k = torch.tensor(ends_q), torch.tensor(ends_k)
    forward = backward = 0
    for (a, b), (c, d) in zip(pairwise(ends_q), pairwise(ends_k), strict=True):
        query, key = (1, 6, b - a, 16), (1, 3, d - c, 16)
        forward += sdpa_flop_count(query, key, key)
        backward += sdpa_backward_flop_count(query, query, key, key)
    ops = torch.ops.flash_attn
    assert counted(lambda: ops._flash_attn_varlen_forward(q, k, k, cu_q, cu_k, 7, 7)) == forward
    filled = (None, None, None, cu_q, cu_k)
    assert counted(lambda: ops._flash_attn_varlen_backward(q, q, k, k, q, q, *filled)) == backward


def test_the_cpu_kernel_counts_forward_and_backward():
    q, k, v = (torch.randn(2, 4, 8, 16, requires_grad=True) for _ in range(3))
    run, shape = torch.nn.functional.scaled_dot_product_attention, q.shape
    expected = sdpa_flop_count(shape, shape, shape) + sdpa_backward_flop_count(shape, shape, shape, shape)
    assert counted(lambda: run(q, k, v).sum().backward()) == expected
