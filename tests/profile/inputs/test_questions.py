"""A file of questions: read, or refused in one line that names the line and the way out."""

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from trio_profile.errors import StudyError
from trio_profile.inputs.questions import FEWEST, Question, digest, open_picture, plain, read


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
        ([GOOD, {"image": "grey.png", "question": "What?"}], "line 2: no answer, and others have one"),
        ([GOOD] * (FEWEST - 1), f"{FEWEST - 1} questions with answers; an interval needs at least {FEWEST}"),
    ],
)
def test_an_unusable_line_is_named(directory: Path, lines: list[object], says: str):
    with pytest.raises(StudyError, match="questions") as refused:
        read(written(directory, *lines))
    assert says in str(refused.value) and "\n" not in str(refused.value)


def test_only_line_feeds_end_a_line(directory: Path):
    """A text may hold U+2028 and its like; an empty line counts, in messages too."""
    odd = json.dumps({**GOOD, "question": "one\u2028two\u0085three"}, ensure_ascii=False)
    assert read(written(directory, *[odd] * FEWEST))[0].text == "one\u2028two\u0085three"
    with pytest.raises(StudyError, match="line 3: no answer"):
        read(written(directory, GOOD, "", {"image": "grey.png", "question": "What?"}))


def test_pictures_of_16_bits_become_pictures_of_8(tmp_path: Path):
    ramp = np.linspace(0, 65535, 256).astype(np.uint16)[None].repeat(4, 0)
    Image.fromarray(ramp).save(tmp_path / "deep.png")
    seen = np.asarray(open_picture(tmp_path / "deep.png"))
    assert seen.shape == (4, 256, 3) and np.array_equal(seen[0, :, 0], ramp[0] >> 8) and seen.max() == 255
    Image.fromarray(np.zeros((4, 4), dtype=np.float32)).save(tmp_path / "float.tiff")
    with pytest.raises(
        StudyError, match=r"float\.tiff' is no picture that can be read: one channel of 32 bits; save it"
    ):
        open_picture(tmp_path / "float.tiff")


def test_a_damaged_picture_is_refused(tmp_path: Path):
    """Its second IDAT chunk has lost its name, for which Pillow raises a SyntaxError."""
    noise = np.random.default_rng(0).integers(0, 256, (300, 300, 3), dtype=np.uint8)
    Image.fromarray(noise).save(tmp_path / "broken.png")
    data = (tmp_path / "broken.png").read_bytes()
    second = data.index(b"IDAT", data.index(b"IDAT") + 4)
    (tmp_path / "broken.png").write_bytes(data[:second] + b"\0\0\0\0" + data[second + 4 :])
    with pytest.raises(StudyError, match=r"broken\.png' is no picture that can be read"):
        open_picture(tmp_path / "broken.png")


def test_different_questions_have_different_digests(directory: Path):
    first = digest(read(written(directory, *[GOOD] * FEWEST)))
    assert digest(read(written(directory, *[GOOD] * FEWEST))) == first
    assert digest(read(written(directory, *[GOOD] * (FEWEST + 1)))) != first
    assert digest(read(written(directory, {**GOOD, "answer": "a mug"}, *[GOOD] * (FEWEST - 1)))) != first
    Image.new("L", (20, 30), 7).save(directory / "grey.png")
    assert digest(read(written(directory, *[GOOD] * FEWEST))) != first


def test_a_missing_file_is_refused(tmp_path: Path):
    with pytest.raises(StudyError, match="do not exist"):
        read(tmp_path / "none.jsonl")
    with pytest.raises(StudyError, match="cannot be read"):
        read(tmp_path)


def test_an_answer_may_differ_in_case_and_go_on_after_its_first_sentence():
    question = Question(Image.new, "What?", "a Cup")  # pyright: ignore[reportArgumentType]
    assert question.is_answered_by(" A  cup. ")
    assert not question.is_answered_by("cup")
    assert question.is_answered_by("A cup. It stands on the table")
    assert question.is_answered_by("\na cup\n\nUSER: and now?")
    assert question.is_answered_by("a\ncup")
    assert not question.is_answered_by("a cup of tea") and not question.is_answered_by("a cupboard. Or a cup.")
    two = Question(Image.new, "How many?", "2")  # pyright: ignore[reportArgumentType]
    assert two.is_answered_by("2.") and two.is_answered_by("2. Or 3") and not two.is_answered_by("2.5")
    assert plain("Two\nwords .") == "two words"
