"""The rules by which an answer is right. They never change under their names: these cases stay."""

import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trio_profile.errors import StudyError
from trio_profile.inputs.matching import _vqa, contains, exact, file_of, normalised, rule_of


def test_exact_allows_another_case_and_what_follows_the_first_sentence():
    for answer in (" A  cup. ", "A cup. It stands on the table", "\na cup\n\nUSER: and now?", "a\ncup"):
        assert exact(answer, "a Cup")
    for answer in ("cup", "a cup of tea", "a cupboard. Or a cup."):
        assert not exact(answer, "a Cup")
    assert exact("2.", "2") and exact("2. Or 3", "2") and not exact("2.5", "2")


# The result of the official evaluation: GT-Vision-Lab/VQA at a013f004, processPunctuation and processDigitArticle.
OFFICIAL = [
    ("A cup.", "cup"),
    ("the red-white, small cup", "red white small cup"),
    ("half-eaten", "half eaten"),
    ("left - right", "left right"),
    ("Two", "2"),
    ("none", "0"),
    ("1,000", "1000"),
    ("2.5", "2.5"),
    ("U.S.", "us"),
    ("(yes)", "yes"),
    ("what?!", "what"),
    ("dont know", "don't know"),
    ("don't know", "don't know"),
    ("couldnt've", "couldn't've"),
    ("it's", "it's"),
    ("its", "its"),
    ("9:30", "9:30"),
    ("black/white", "black white"),
]


def test_normalisation_is_that_of_vqa():
    """Ours leaves out the apostrophes of its contractions, and theirs adds them."""
    for text, official in OFFICIAL:
        same = official if official == "it's" else official.replace("'", "")
        assert _vqa(text) == same, text


@pytest.mark.parametrize(
    ("known", "answers"),
    [
        ("yes", ["Yes, there is a bottle.", "**Yes** it is"]),
        ("No.", ["NO!"]),
        ("A", ["(A)"]),
        ("(B)", ["B.", "b)", "B: a cup", "[B] because", "B,\nbecause", '"B"', "B!", "'B';\nbecause"]),
        ("C.", ["c)", "C!"]),
        ("2", ["Two"]),
        ("The 2 cups", ["two cups!"]),
        ("dog i think", ["The dog, I think. Or a cat"]),
        ("don't know", ["Dont know"]),
        ("1000", ["1,000"]),
    ],
)
def test_normalised_compares_as_evaluations_do(known: str, answers: list[str]):
    assert all(normalised(answer, known) and not exact(answer, known) for answer in answers)


@pytest.mark.parametrize(
    ("known", "answers"),
    [
        ("yes", ["There is a bottle, yes", ""]),
        ("no", ["Not at all", "Nothing"]),
        ("A", ["A cup", "AB", "A-frame", "A & B"]),
        ("B", ["The answer is B"]),
        ("cup", ["cups", "a cup of tea"]),
        ("2", ["2.5"]),
        ("it's", ["its"]),
        ("?", ["the"]),
    ],
)
def test_normalised_is_no_search(known: str, answers: list[str]):
    assert not any(normalised(answer, known) for answer in answers)


def test_contains_looks_for_whole_words():
    assert contains("There is a Cup on the table", "the cup") and contains("The answer is B.", "B")
    assert contains("I see two cups", "2 cups")
    assert not contains("a cupboard", "cup") and not contains("I know", "no") and not contains("It is a cup", "A")
    assert not contains("the", "?") and not contains("cup red", "red cup")


@given(answer=st.text(max_size=30), known=st.text(min_size=1, max_size=12))
def test_each_rule_allows_what_the_one_before_allows(answer: str, known: str):
    verdicts = [rule(answer, known) for rule in (exact, normalised, contains)]
    assert verdicts == sorted(verdicts) and all(rule(known, known) for rule in (exact, normalised, contains))


def test_a_function_of_the_user_judges(tmp_path: Path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    file = tmp_path / "judges_of_a_test.py"
    file.write_text(
        "import numpy\n"
        "def ends(answer, known): return numpy.bool_(answer.endswith(known))\n"
        "def fails(answer, known): return 1 / 0\n"
        "def scores(answer, known): return 0.5\n"
        "threshold = 0.5\n"
    )
    ends = rule_of("judges_of_a_test:ends")
    assert ends("a cup", "cup") is True and ends("cups", "cup") is False
    assert file_of("judges_of_a_test:ends") == file and file_of("exact") is None
    for name, why in (
        ("judges_of_a_test:fails", "fails for the answer 'a' to 'b' .ZeroDivisionError: division by zero"),
        ("judges_of_a_test:scores", "returns 0.5 for an answer; return True or False"),
        ("judges_of_a_test:none", "cannot be imported"),
        ("judges_of_a_test:threshold", "'judges_of_a_test:threshold' is 0.5, no function; name module:function"),
        ("no_such_module:none", "cannot be imported .*; name module:function"),
    ):
        with pytest.raises(StudyError, match=why) as caught:
            rule_of(name)("a", "b")
        assert "\n" not in str(caught.value)
    assert sys.modules.pop("judges_of_a_test")
