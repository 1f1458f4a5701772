"""A file of questions: read, or refused in one line that names the line and the way out."""

import json
from pathlib import Path

import pytest
from PIL import Image

from trio_profile.errors import StudyError
from trio_profile.questions import FEWEST, Question, plain, read


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    Image.new("L", (20, 30)).save(tmp_path / "grey.png")
    return tmp_path


def written(directory: Path, *lines: object) -> Path:
    text = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    (directory / "questions.jsonl").write_text("\n".join(text), encoding="utf-8")
    return directory / "questions.jsonl"


GOOD = {"image": "grey.png", "question": "What is it?", "answer": "a cup", "kind": "what"}


def test_a_file_of_questions_with_pictures_beside_it(directory: Path):
    questions = read(written(directory, *[GOOD] * FEWEST, ""))
    assert len(questions) == FEWEST
    assert questions[0].text == "What is it?" and questions[0].kind == "what"
    assert questions[0].picture().mode == "RGB" and questions[0].picture().size == (20, 30)


def test_questions_without_answers_may_be_few(directory: Path):
    (question,) = read(written(directory, {"image": "grey.png", "question": "What?"}))
    assert question.answer is None
    assert not question.is_answered_by("anything")


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        ([], "is empty"),
        (["{"], "line 1 is not JSON"),
        ([GOOD, "[1]"], "line 2: a question has the fields"),
        ([{**GOOD, "colour": "red"}], "and no others"),
        ([{**GOOD, "image": "none.png"}], "none.png' does not exist"),
        ([{**GOOD, "image": "questions.jsonl"}], "no picture that can be read"),
        ([{"image": "grey.png"}], "line 1: question = None"),
        ([{**GOOD, "question": " "}], "question = ' '"),
        ([{**GOOD, "answer": 3}], "answer = 3 must be a text"),
        ([GOOD, {"image": "grey.png", "question": "What?"}], "question 2 has no answer"),
        ([GOOD] * (FEWEST - 1), f"{FEWEST - 1} questions with answers; an interval needs at least {FEWEST}"),
    ],
)
def test_what_cannot_be_used_is_named(directory: Path, lines: list[object], says: str):
    with pytest.raises(StudyError, match="questions") as refused:
        read(written(directory, *lines))
    assert says in str(refused.value) and "\n" not in str(refused.value)


def test_a_file_that_is_not_there(tmp_path: Path):
    with pytest.raises(StudyError, match="do not exist"):
        read(tmp_path / "none.jsonl")
    with pytest.raises(StudyError, match="cannot be read"):
        read(tmp_path)


def test_answers_are_compared_plainly():
    question = Question(Image.new, "What?", "a Cup")  # pyright: ignore[reportArgumentType]
    assert question.is_answered_by(" A  cup. ")
    assert not question.is_answered_by("cup")
    assert plain("Two\nwords .") == "two words"
