"""What the encoder methods say about their source: whose rule it is, its licence, and how ours differs."""

import pytest

from trio_core import methods

CONTROLS = {"downsample", "grid", "random"}
NON_COMMERCIAL = {"divprune", "prunevid", "tome"}
ENCODER_METHODS = (
    "cdpruner",
    "divprune",
    "downsample",
    "fastervlm",
    "grid",
    "holov",
    "prumerge",
    "prunevid",
    "random",
    "scope",
    "tome",
    "visionzip",
    "vispruner",
)


@pytest.mark.parametrize("name", ENCODER_METHODS)
def test_remark_names_controls_and_non_commercial_code(name):
    reference = methods.find(name).reference
    if name in CONTROLS:
        assert reference.remark == "control" == reference.kind
    elif name in NON_COMMERCIAL:
        assert reference.remark == "its code is non-commercial" and reference.licence.startswith("CC BY-NC")
    else:
        assert reference.remark == ""
    assert "CC BY" not in reference.note  # the licence has a field of its own


@pytest.mark.parametrize(
    "name", ["cdpruner", "divprune", "fastervlm", "holov", "prumerge", "scope", "visionzip", "vispruner"]
)
def test_note_says_that_the_released_prompt_is_contiguous(name):
    note = methods.find(name).reference.note
    assert "contiguous prompt on LLaVA" in note and "positions='compact' renumbers them" in note


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("prunevid", "On video the released code does more"),
        ("prumerge", "By default the released code adapts the number of tokens"),
        ("divprune", "On Qwen the rule here is the same"),
        ("holov", "On Qwen the released code cuts int(1024/576 · N/K) strips"),
        ("visionzip", "the CLS token at the place of the first patch that leaves"),
        ("prumerge", "the sum of the rest at the place of the last patch that leaves"),
    ],
)
def test_note_names_the_difference(name, words):
    assert words in methods.find(name).reference.note


@pytest.mark.parametrize("name", ENCODER_METHODS)
def test_first_line_of_the_docstring_is_one_sentence(name):
    first, *rest = (methods.find(name).__doc__ or "").splitlines()
    assert first.endswith(".") and first.count(". ") == 0
    assert not rest or not rest[0].strip()
