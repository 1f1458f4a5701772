"""Work of operators that torch cannot count, against SDPA's own count and a loop over sequences."""

from collections.abc import Callable, Iterator
from itertools import pairwise

import pytest
import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode, sdpa_backward_flop_count, sdpa_flop_count

from trio_profile.profilers import operator_formulas as formulas
from trio_profile.profilers.operator_formulas import supplied

Q, K = (2, 7, 6, 16), (2, 9, 3, 16)
"""Batch, tokens, heads, width: grouped keys."""


@pytest.fixture
def flash() -> Iterator[None]:
    """The flash-attention package's operators by name and arguments, for as long as a test runs."""
    forward = "(Tensor q, Tensor k, Tensor v, float dropout_p, float softmax_scale, bool causal) -> Tensor"
    packed = "(Tensor q, Tensor k, Tensor v, Tensor cu_q, Tensor cu_k, int max_q, int max_k) -> Tensor"
    filled = "Tensor out, Tensor lse, Tensor? dq, Tensor? dk, Tensor? dv"
    backward = f"(Tensor dout, Tensor q, Tensor k, Tensor v, {filled}) -> Tensor"
    packed_backward = f"(Tensor dout, Tensor q, Tensor k, Tensor v, {filled}, Tensor cu_q, Tensor cu_k) -> Tensor"
    operators = {
        "_flash_attn_forward": forward,
        "_flash_attn_varlen_forward": packed,
        "_flash_attn_backward": backward,
        "_flash_attn_varlen_backward": packed_backward,
    }
    library = torch.library.Library("flash_attn", "FRAGMENT")
    for name, schema in operators.items():
        library.define(name + schema)
        library.impl(name, lambda q, *_, **__: torch.empty_like(q), "CPU")
    yield
    library._destroy()


def counted(run: Callable[[], object]) -> int:
    with FlopCounterMode(display=False, custom_mapping=supplied()) as counter:
        run()
    return counter.get_total_flops()


def drawn(*shape: int) -> Tensor:
    return torch.zeros(shape)


def heads_first(shape: tuple[int, ...]) -> tuple[int, ...]:
    return shape[0], shape[2], shape[1], shape[3]


def by_sequence(ends_q: list[int], ends_k: list[int], of: Callable[..., int], backward: bool = False) -> int:
    total = 0
    for (a, b), (c, d) in zip(pairwise(ends_q), pairwise(ends_k), strict=True):
        query, key = (1, 6, b - a, 16), (1, 3, d - c, 16)
        total += of(query, query, key, key) if backward else of(query, key, key)
    return total


def test_without_the_packages_only_what_is_there_is_supplied():
    assert {str(op) for op in supplied()} == {
        "aten._scaled_dot_product_flash_attention_for_cpu",
        "aten._scaled_dot_product_flash_attention_for_cpu_backward",
    }


def test_grouped_keys_are_counted_where_torch_refuses_them(monkeypatch):
    """As in torch 2.11, whose formula takes no keys of fewer heads."""

    def refuses(query, key, _value):
        assert query[1] == key[1]
        return sdpa_flop_count(query, key, key)

    monkeypatch.setattr(formulas, "sdpa_flop_count", refuses)
    found = {str(op): formula for op, formula in supplied().items()}
    kernels = {f"aten._scaled_dot_product_{name}_attention" for name in ("flash", "efficient", "cudnn")}
    assert kernels | {f"{name}_backward" for name in kernels} <= set(found)
    q, k, grad = drawn(*heads_first(Q)), drawn(*heads_first(K)), drawn(*heads_first(Q))
    forward = sdpa_flop_count(q.shape, k.shape, k.shape)
    backward = sdpa_backward_flop_count(grad.shape, q.shape, k.shape, k.shape)
    for name in kernels:
        assert found[name](q, k, k) == forward and found[f"{name}_backward"](grad, q, k, k) == backward


def test_flash_attention_counts_as_sdpa_does(flash):
    ops = torch.ops.flash_attn
    expected = sdpa_flop_count(heads_first(Q), heads_first(K), heads_first(K))
    q, k, v = drawn(*Q), drawn(*K), drawn(*K)
    assert counted(lambda: ops._flash_attn_forward(q, k, v, 0.0, 1.0, True)) == expected > 0
    back = sdpa_backward_flop_count(heads_first(Q), heads_first(Q), heads_first(K), heads_first(K))
    assert counted(lambda: ops._flash_attn_backward(q, q, k, v, q, q, None, None, None)) == back


def test_packed_sequences_are_counted_one_by_one(flash):
    ends_q, ends_k = [0, 3, 10, 11], [0, 5, 12, 16]
    q, k, v = drawn(11, 6, 16), drawn(16, 3, 16), drawn(16, 3, 16)
    cu_q, cu_k = torch.tensor(ends_q), torch.tensor(ends_k)
    ops = torch.ops.flash_attn
    expected = by_sequence(ends_q, ends_k, sdpa_flop_count)
    assert counted(lambda: ops._flash_attn_varlen_forward(q, k, v, cu_q, cu_k, 7, 7)) == expected
    back = by_sequence(ends_q, ends_k, sdpa_backward_flop_count, backward=True)
    assert counted(lambda: ops._flash_attn_varlen_backward(q, q, k, v, q, q, None, None, None, cu_q, cu_k)) == back


def test_the_cpu_kernel_counts_forward_and_backward():
    q, k, v = (torch.randn(2, 4, 8, 16, requires_grad=True) for _ in range(3))
    shape = (2, 4, 8, 16)

    def both() -> None:
        torch.nn.functional.scaled_dot_product_attention(q, k, v).sum().backward()

    assert counted(both) == sdpa_flop_count(shape, shape, shape) + sdpa_backward_flop_count(shape, shape, shape, shape)
