"""The published figures of LLaVA-1.5-7B, each printed by a convention of its own. [field.md, finding 2]."""

from dataclasses import replace

import pytest

from tests.profile.examples import shape
from trio_core.rules.schedule import Schedule
from trio_profile.cost.conventions import (
    PAPER,
    Convention,
    OtherCount,
    Prefill,
    conventions,
    explain,
    explain_counts,
    figure,
    find,
    match,
    prefill_of,
    steps,
)
from trio_profile.cost.formula import decoder_macs, fastv_inference, fastv_overhead
from trio_profile.errors import StudyError
from trio_profile.records.schema import Shape

VISION = 190_959_108_096 + 12_079_595_520


def llava(text_tokens: int) -> Prefill:
    return Prefill(shape(vocabulary=32000, text_tokens=text_tokens), (576,) * 32, vision_macs=VISION)


def grouped(**changes: int) -> Prefill:
    """Two layers of different lengths, grouped keys, queries wider than the residual stream."""
    sizes = Shape(
        num_layers=2, hidden=8, intermediate=16, query_width=16, kv_width=4, heads=4, vocabulary=32, ffn_matrices=3,
        itemsize=4, batch=3, visual_tokens=10, text_tokens=5,
    )  # fmt: skip
    return Prefill(sizes, (10, 6), vision_macs=700, overhead_macs=99, **changes)


@pytest.mark.parametrize(
    ("claim", "text", "code", "value", "printed"),
    [
        ("99.3e9", 36, "layer-all-ffn2-macs", 99_327_541_248, "rounded"),
        ("2.98e12", 60, "visual-ffn2-macs", 2_986_076_012_544, "truncated"),
        ("3.23e12", 46, "all-ffn2-macs", 3_232_047_824_896, "rounded"),
        ("3.82e12", 60, "visual-ffn3-macs", 3_817_152_184_320, "rounded"),
        ("8.48e12", 50, "all-ffn3-heads-flops", 8_477_516_759_040, "rounded"),
    ],
)
def test_a_printed_figure_has_its_convention(claim: str, text: int, code: str, value: int, printed: str):
    matches = explain(figure(claim), llava(text))
    first = matches[0]
    assert (first.code, first.value, first.printed) == (code, value, printed)
    assert all(found.printed != "no" for found in matches)


def test_an_unexplained_figure_has_its_nearest_convention_and_the_text_that_would_explain_it():
    """At the 46 text tokens of its source 0.7 % are missing, the work of four more: elementwise work is far less."""
    nearest, *others = explain(figure("8.48e12"), llava(46))
    assert (nearest.code, nearest.printed, nearest.text_tokens) == ("all-ffn3-heads-flops", "no", None)
    assert -0.008 < nearest.off < -0.006
    assert (others[0].code, others[0].text_tokens) == ("all-ffn3-heads-flops", (50, 50))


def test_the_number_of_text_tokens_that_explains_a_figure_is_complete():
    for claim in (figure("8.48e12"), figure("7e13")):
        for found in explain(claim, llava(46))[1:]:
            assert found.text_tokens is not None
            low, high = found.text_tokens
            texts = range(max(low - 1, 0), high + 2)
            printed = [match(claim, found.convention, llava(text)).printed != "no" for text in texts]
            assert printed == [low <= text <= high for text in texts]


def test_every_convention_has_a_code_of_its_own():
    dense, pruned = list(conventions()), list(conventions(overhead=True))
    assert len({one.code for one in dense}) == len({one.name for one in dense}) == len(dense) == 112
    assert len({one.code for one in pruned}) == len(pruned) == 208
    assert all(find(one.code) == one for one in pruned)


def test_values_are_those_worked_out_by_hand():
    prefill = grouped()
    assert PAPER.value(prefill) == 3 * fastv_inference((10, 6), 8, 16) + 99
    both = decoder_macs((15, 11), prefill.shape)
    assert Convention(tokens="all", ffn=3, head="one").value(prefill) == 3 * (both + 8 * 32)
    # All rows of the head are those of the last layer: 6 visual and 5 of text.
    everything = Convention(tokens="all", ffn=3, head="all", tower=True, unit="flops")
    assert everything.value(prefill) == 2 * (3 * (both + 11 * 8 * 32) + 700)
    half = Convention(layers="one", tokens="all", causal="half")
    assert half.value(prefill) == 3 * (4 * 15 * 64 + 15 * 16 * 8 + 2 * 15 * 8 * 16)


def test_every_convention_can_be_walked_to_the_counted_work():
    prefill = grouped()
    runs = 3 * (decoder_macs((15, 11), prefill.shape) + 8 * 32)
    for convention in conventions(overhead=True):
        added = [macs for _, macs in steps(convention, prefill)]
        assert convention.value(prefill) + sum(added) == runs and all(added), convention.code


def test_an_unknown_convention_is_refused_with_the_nearest_ones():
    with pytest.raises(StudyError, match="'visual-ffn4-macs' is none of the 208 in use; the nearest are visual-ffn"):
        find("visual-ffn4-macs")


@pytest.mark.parametrize("claim", ["much", "", "-2e12", "0", "nan", "inf", "1e40", "2." + 30 * "9"])
def test_text_that_is_no_figure_is_refused(claim: str):
    with pytest.raises(StudyError, match="--claimed") as caught:
        figure(claim)
    assert "\n" not in str(caught.value)


# --- the printed figures of TRIO on LLaVA-NeXT-7B, whose picture has 2928 visual tokens with its line ends ---

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
