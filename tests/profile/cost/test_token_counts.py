"""The printed figures of TRIO on LLaVA-NeXT-7B, whose picture has 2928 visual tokens with its line ends."""

from dataclasses import replace

import pytest

from tests.profile.examples import shape
from trio_core.rules.schedule import Schedule
from trio_profile.cost.conventions import Prefill, figure
from trio_profile.cost.formula import fastv_inference, fastv_overhead
from trio_profile.cost.token_counts import OtherCount, explain_counts, prefill_of

D, M = 4096, 11008


def with_visual_tokens(prefill: Prefill, by_layer, overhead_macs: int) -> Prefill:
    """The prefill with other visual tokens in each layer."""
    sizes = prefill.shape.model_copy(update={"visual_tokens": by_layer[0]})
    return replace(prefill, shape=sizes, visual_by_layer=tuple(by_layer), overhead_macs=overhead_macs)


def llava_next(budgets: tuple[int, ...] = ()) -> tuple[Prefill, OtherCount]:
    """The prefill with 2928 visual tokens, and with 2880. The same budgets are kept of both."""

    def layers(tokens: int) -> tuple[int, ...]:
        return Schedule((1, 10, 15), budgets, tokens, 32).tokens_by_layer if budgets else (tokens,) * 32

    def overhead(tokens: int) -> int:
        return fastv_overhead((tokens, *budgets[:-1]), D, M) if budgets else 0

    own = Prefill(shape(visual_tokens=2928), layers(2928), overhead_macs=overhead(2928))
    return own, OtherCount(with_visual_tokens(own, layers(2880), overhead(2880)), "without line ends")


def test_the_dense_figure_of_the_paper_is_32_f_of_2880():
    own, other = llava_next()
    first, *_ = explain_counts(figure("16.67e12"), own, [other], 1.0)
    assert (first.code, first.visual_tokens, first.counted_by) == ("visual-ffn2-macs", 2880, "without line ends")
    assert (first.value, first.printed) == (16_669_841_817_600, "rounded")
    assert prefill_of(first, own, [other]) is other.prefill


def test_other_numbers_of_tokens_are_tried_only_if_no_convention_gives_the_figure():
    own, other = llava_next()
    (first, *rest) = explain_counts(figure("16.98e12"), own, [other], 1.0)
    assert (first.code, first.printed, first.visual_tokens) == ("visual-ffn2-macs", "rounded", None)
    assert all(found.visual_tokens is None for found in rest)
    assert prefill_of(first, own, [other]) is own


@pytest.mark.parametrize("assumed", [1.0, 2.0])
def test_gamma_of_the_pruned_figure_is_the_one_that_the_audit_finds(assumed: float):
    """`audit trio-2026` divides (2.68 T - F_inf) by Σ f(V) with the budgets 460, 270, 110: γ = 1.53768."""
    own, other = llava_next((460, 270, 110))
    own, other = (
        with_visual_tokens(one, one.visual_by_layer, fastv_overhead((one.visual_by_layer[0], 460, 270), D, M, assumed))
        for one in (own, other.prefill)
    )
    found = explain_counts(figure("2.68e12"), own, [OtherCount(other, "without line ends")], assumed)
    (gamma,) = [one.gamma for one in found if one.gamma and one.visual_tokens == 2880]
    assert gamma[0] < 1.53768 < gamma[1]
    looked_at = fastv_overhead((2880, 460, 270), D, M)
    inference = fastv_inference(Schedule((1, 10, 15), (460, 270, 110), 2880, 32).tokens_by_layer, D, M)
    assert gamma == pytest.approx(((2.675e12 - inference) / looked_at, (2.685e12 - inference) / looked_at))
