"""The published figures of LLaVA-1.5-7B, each printed by a convention of its own. [field.md, finding 2]."""

import pytest

from trio_profile.analysis.conventions import conventions, explain, figure
from trio_profile.errors import StudyError
from trio_profile.schema import Shape

VISION = 190_959_108_096 + 12_079_595_520


def llava(text_tokens: int) -> Shape:
    return Shape(
        num_layers=32, hidden=4096, intermediate=11008, query_width=4096, kv_width=4096, heads=32, vocabulary=32000,
        ffn_matrices=3, itemsize=2, batch=1, visual_tokens=576, text_tokens=text_tokens,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("claim", "text", "name", "value", "printed"),
    [
        ("99.3e9", 36, "one layer, visual and text tokens, FFN of two matrices, MACs", 99_327_541_248, "rounded"),
        ("2.98e12", 60, "32 layers, visual tokens alone, FFN of two matrices, MACs", 2_986_076_012_544, "truncated"),
        ("3.23e12", 46, "32 layers, visual and text tokens, FFN of two matrices, MACs", 3_232_047_824_896, "rounded"),
        ("3.82e12", 60, "32 layers, visual tokens alone, gated FFN, MACs", 3_817_152_184_320, "rounded"),
    ],
)
def test_a_printed_figure_has_its_convention(claim: str, text: int, name: str, value: int, printed: str):
    matches = explain(figure(claim), llava(text), VISION)
    first = matches[0]
    assert (first.convention.name, first.convention.value, first.printed) == (name, value, printed)
    assert all(match.printed != "no" for match in matches)


def test_the_fifth_is_named_with_what_is_left():
    """8.48 T by calflops counts softmax and elementwise work as well, which has no products."""
    (nearest,) = explain(figure("8.48e12"), llava(46), VISION)
    assert nearest.printed == "no"
    assert nearest.convention.name == (
        "32 layers, visual and text tokens, gated FFN, head for all rows, FLOPs (2 × MACs)"
    )
    assert -0.008 < nearest.off < -0.006


def test_every_convention_is_another_one():
    names = [one.name for one in conventions(llava(60), VISION)]
    assert len(names) == len(set(names)) == 112


@pytest.mark.parametrize("claim", ["much", "", "-2e12", "0", "nan", "inf"])
def test_what_is_no_figure_is_refused(claim: str):
    with pytest.raises(StudyError, match="--claimed") as caught:
        figure(claim)
    assert "\n" not in str(caught.value)
