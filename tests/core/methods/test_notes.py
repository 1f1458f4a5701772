"""What the encoder methods say about their source: whose rule it is, its licence, and how ours differs."""

from dataclasses import dataclass

import pytest

from tests.core.methods.test_methods import BUILT_IN
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
        ("fastv", "You cannot select anew at each new token"),
        ("fitprune", "You cannot fit tables to another model"),
        ("pact", "You cannot give a cutoff"),
        ("prumerge", "You cannot let each picture decide how many tokens it keeps"),
        ("prunevid", "None of these is available here"),
        ("pyramiddrop", "In training the code ranks by all tokens before the answers, and here you cannot"),
        ("scope", 'You cannot choose its mode "add"'),
        ("tome", "You cannot merge inside the blocks"),
        ("trio-ve", "The released code scans and merges as VScan does, and here you cannot"),
        ("vtw", "trio_core.calibration.vtw_layer(model, prompts) is this search"),
        ("visionzip", "the CLS token at the place of the first patch that leaves"),
        ("prumerge", "the sum of the rest at the place of the last patch that leaves"),
    ],
)
def test_note_names_the_difference(name, words):
    assert words in methods.find(name).reference.note


@pytest.mark.parametrize("name", BUILT_IN)
def test_summary_is_one_short_sentence(name):
    found = methods.find(name).summary()
    assert found.endswith(".") and found.count(". ") == 0 and len(found) <= 100
    _, *rest = (methods.find(name).__doc__ or "").splitlines()
    assert not rest or not rest[0].strip()


def test_a_class_without_a_docstring_has_no_summary():
    @dataclass(frozen=True, kw_only=True)
    class Silent(methods.find("random")):
        name = ""

    assert Silent.summary() == ""
