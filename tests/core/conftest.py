"""Every test of trio_core draws the same random numbers, and toy models are not worth a second thread."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor


@pytest.fixture(scope="package", autouse=True)
def one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(autouse=True)
def seeded() -> None:
    torch.manual_seed(0)


@pytest.fixture
def uncompiled_flex(monkeypatch: pytest.MonkeyPatch) -> None:
    """Flex attention in torch's own uncompiled form. Compiling takes far longer than a toy runs."""
    from torch.nn.attention import flex_attention
    from transformers import masking_utils
    from transformers.integrations import flex_attention as library

    def attend(query: Tensor, key: Tensor, value: Tensor, training: bool, **options: Any) -> Tensor:
        return flex_attention.flex_attention(query, key, value, **options)

    def block_mask(_compile: bool, **options: Any) -> flex_attention.BlockMask:
        return flex_attention.create_block_mask(**options)

    monkeypatch.setattr(flex_attention, "_FLEX_ATTENTION_DISABLE_COMPILE_DEBUG", True)
    monkeypatch.setattr(library, "compile_friendly_flex_attention", attend)
    monkeypatch.setattr(masking_utils, "create_block_mask", block_mask)
