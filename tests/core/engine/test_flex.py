"""Flex attention: the library's rule for who sees whom, asked of the tokens that are left.

Torch's own uncompiled form of the kernel stands in (`uncompiled_flex`), but for one test.
"""

import shutil

import pytest
import torch
from torch import Tensor

from tests.core import tiny
from tests.core.models.test_families import EARLY, METHOD, apart, check, windowed
from trio_core import Trio, UnsupportedModel
from trio_core.methods.method import Method

FAMILIES = ("llava", "fastvlm", "idefics3", "gemma3", "paligemma", "paligemma2")
"""One for each kind of decoder and mask; the library has no flex attention for Qwen-VL's."""


def check_toy(family: str, samples: list[dict[str, Tensor]], method: Method) -> None:
    """The family's toy, beside the same toy under another attention."""
    check(family, tiny.model(family, "flex_attention"), samples, method, tiny.model(family))


@pytest.mark.usefixtures("uncompiled_flex")
class TestUncompiled:
    @pytest.mark.parametrize(
        ("family", "method"),
        tiny.fast_first(
            [*((family, METHOD) for family in FAMILIES), *((f, EARLY) for f in ("llava", "gemma3", "paligemma2"))],
            ("llava", METHOD),
        ),
    )
    @pytest.mark.slow
    def test_a_padded_batch_with_unequal_pictures(self, family, method):
        check_toy(family, tiny.pair(family), method)

    @pytest.mark.parametrize("family", tiny.fast_first(["llava", "gemma3"], "gemma3"))
    def test_dropped_tokens_that_fill_a_batch_up_are_hidden(self, family):
        check_toy(family, tiny.unequal_spans(family), METHOD)

    @pytest.mark.slow
    @pytest.mark.parametrize("family", ["gemma3", "paligemma2"])
    @pytest.mark.parametrize("window", [8, 24, 47])
    def test_windows_that_slide(self, family, window):
        model, dense = (windowed(family, attention, window) for attention in ("flex_attention", "eager"))
        check(family, model, tiny.pair(family), dense=dense)

    @pytest.mark.slow
    @pytest.mark.parametrize("family", ["llava", "gemma3", "paligemma"])
    def test_tail_saliency_is_that_of_other_attention(self, family):
        inputs = tiny.batch(tiny.pair(family))
        ours, expected = (tiny.run(tiny.model(family, name), inputs, METHOD)[1] for name in ("flex_attention", None))
        for stage, wanted in zip(ours.stages, expected.stages, strict=True):
            for b in range(2):
                assert torch.equal(stage.kept[b], wanted.kept[b])
                assert apart(stage.scores[b].nan_to_num(), wanted.scores[b].nan_to_num()) < 1e-5

    def test_autograd_on_a_cpu_is_refused_with_the_way_out(self):
        with pytest.raises(
            UnsupportedModel, match=r"'flex_attention' has no backward pass on a CPU .* saliency 'tail'"
        ):
            method = Trio(retention=0.5, saliency="autograd")
            tiny.run(tiny.model("llava", "flex_attention"), tiny.sample("llava"), method)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="torch.compile needs g++")
@pytest.mark.filterwarnings("ignore:_compile flag:DeprecationWarning")
def test_the_compiled_kernel_itself():
    """All tokens go before the decoder: one length, and so one kernel."""
    one = tiny.sample("llava")
    ours, expected = (tiny.run(tiny.model("llava", name), one, EARLY)[0] for name in ("flex_attention", "sdpa"))
    assert torch.equal(ours.isnan(), expected.isnan())
    assert apart(ours.nan_to_num(), expected.nan_to_num()) < 1e-5
