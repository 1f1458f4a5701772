"""A file of questions: read, or refused in one line that names the line and the way out."""

import io
import json
import os
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from trio_profile.errors import StudyError
from trio_profile.inputs.questions import (
    FEWEST,
    judged_by,
    open_picture,
    pictures_of,
    read,
    read_several,
)


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
    """A byte order mark before the first of them is no fault."""
    path = written(directory, *[GOOD] * FEWEST, "")
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    questions = read(path)
    assert len(questions) == FEWEST
    assert questions[0].text == "What is it?" and questions[0].kind == "what"
    assert questions[0].picture().mode == "RGB" and questions[0].picture().size == (20, 30)


def test_pictures_of_one_scene_count_as_one_picture(directory: Path):
    Image.new("L", (20, 30)).save(directory / "next.png")
    names = ("grey.png", "next.png")
    lines = [{"image": name, "question": "What?", "scene": scene} for name in names for scene in "ab"]
    assert pictures_of(read(written(directory, *lines))) == (0, 1, 0, 1)


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        ([], "is empty"),
        (["{"], "line 1 is not JSON"),
        (['{"image": "grey.png", "question": "A?", "question": "B?"}'], "it contains 'question' twice in one object"),
        (['{"image": "grey.png", "question": {"a": 1, "a": 1}}'], "it contains 'a' twice in one object"),
        (
            [{**GOOD, "match": "os:system"}],
            "match = 'os:system': choose exact, normalised, contains; only --match names",
        ),
        ([{**GOOD, "match": ["exact"]}], "match = \"['exact']\": choose exact"),
        ([GOOD, "[1]"], "line 2: a question has the fields"),
        ([{**GOOD, "colour": "red"}], "and no others"),
        ([{**GOOD, "scene": 7}], "line 1: scene = 7 must be a text that is not empty"),
        ([{**GOOD, "image": "none.png"}], "none.png' does not exist"),
        ([{**GOOD, "image": "questions.jsonl"}], "no picture that can be read"),
        ([{**GOOD, "image": "../grey.png"}], "line 1: image '../grey.png' is outside the folder of the questions"),
        ([{**GOOD, "video": "a.mp4"}], "line 1: image and video: give one of them"),
        ([{"video": "a.mp4", "question": "What?"}], "video 'a.mp4': only pictures are asked about here; give image"),
        ([{"video": "../a.mp4", "question": "What?"}], "video '../a.mp4' is outside the folder of the questions"),
        ([{**GOOD, "image": "/grey.png"}], "is outside the folder"),
        ([{**GOOD, "image": "a\x00b"}], "no file can have this name"),
        ([{**GOOD, "image": "a" * 300}], "File name too long"),
        (["\ud800".encode("utf-8", "surrogatepass").decode("latin-1")], "line 1 is not JSON"),
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


def test_questions_of_several_files_have_the_name_of_their_file(directory: Path):
    first = written(directory, *[GOOD] * (FEWEST + 2)).rename(directory / "pope.jsonl")
    second = written(directory, *[{"image": "grey.png", "question": "Why?"}] * FEWEST).rename(directory / "gqa.jsonl")
    found = read_several([first, second], FEWEST)
    assert [one.text for one in found] == ["What is it?"] * FEWEST + ["Why?"] * FEWEST
    assert [one.benchmark for one in found] == ["pope"] * FEWEST + ["gqa"] * FEWEST
    assert set(pictures_of(found)) == {0}  # both files name the same picture
    assert [one.kind for one in read(first)] == ["what"] * (FEWEST + 2)


def test_several_files_of_one_name_or_with_few_questions_are_refused(directory: Path):
    first = written(directory, *[GOOD] * FEWEST)
    with pytest.raises(StudyError, match="are both called 'questions': rename one of them"):
        read_several([first, directory / "more" / first.name], None)
    few = written(directory, {"image": "grey.png", "question": "Why?"}).rename(directory / "few.jsonl")
    with pytest.raises(StudyError, match=f"few.jsonl: 1 questions; an interval over them needs at least {FEWEST}"):
        read_several([few], None)


def test_only_line_feeds_end_a_line(directory: Path):
    """A text may hold U+2028 and its like; an empty line counts, in messages too."""
    odd = json.dumps({**GOOD, "question": "one\u2028two\u0085three"}, ensure_ascii=False)
    assert read(written(directory, *[odd] * FEWEST))[0].text == "one\u2028two\u0085three"
    with pytest.raises(StudyError, match="line 3: no answer"):
        read(written(directory, GOOD, "", {"image": "grey.png", "question": "What?"}))


def test_a_damaged_picture_is_refused(tmp_path: Path):
    """Its second IDAT chunk has lost its name, for which Pillow raises a SyntaxError."""
    noise = np.random.default_rng(0).integers(0, 256, (300, 300, 3), dtype=np.uint8)
    Image.fromarray(noise).save(tmp_path / "broken.png")
    data = (tmp_path / "broken.png").read_bytes()
    second = data.index(b"IDAT", data.index(b"IDAT") + 4)
    (tmp_path / "broken.png").write_bytes(data[:second] + b"\0\0\0\0" + data[second + 4 :])
    with pytest.raises(StudyError, match=r"broken\.png' is no picture that can be read"):
        open_picture(tmp_path / "broken.png")


def test_each_line_may_have_its_rule_and_a_study_another_one_for_all(directory: Path):
    """The usual rule of a study leaves a line its own."""
    rules = [{}, {"match": "exact"}, {"match": "contains"}, {"match": None}]
    questions = read(written(directory, *[{**GOOD, "answer": "cup", **rule} for rule in rules * 3]))[:4]

    def judged(match: str, text: str) -> list[bool]:
        return [question.is_answered_by(text) for question in judged_by(match, questions)]

    assert judged("normalised", "The cup!") == [True, False, True, True]
    assert judged("normalised", "It is a cup") == [False, False, True, False]
    assert judged("contains", "It is a cup") == [True] * 4
    assert judged("exact", "The cup!") == [False] * 4
    assert judged("operator:eq", "cup") == [True] * 4 and judged("operator:eq", "Cup") == [False] * 4


# --- files of questions and pictures that somebody else made ---------------------------------------------------------


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir, lambda path: path.symlink_to(path.name)])
def test_questions_and_pictures_that_are_no_regular_files_are_refused_at_once(tmp_path: Path, make):
    make(tmp_path / "odd")
    with pytest.raises(StudyError, match=r"questions .* cannot be read"):
        read(tmp_path / "odd")
    with pytest.raises(StudyError, match="do not exist"):
        read(tmp_path / "none.jsonl")
    with pytest.raises(StudyError, match="no picture that can be read"):
        open_picture(tmp_path / "odd")


def test_a_link_beside_questions_without_answers_may_lead_anywhere(directory: Path, tmp_path_factory):
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    Image.new("L", (4, 4)).save(elsewhere / "far.png")
    (directory / "pictures").symlink_to(elsewhere)
    (question,) = read(written(directory, {"image": "pictures/far.png", "question": "Without an answer, one will do"}))
    assert question.picture().size == (4, 4)
    assert question.answer is None and not question.is_answered_by("anything")


@pytest.mark.parametrize("orientation", range(1, 9))
def test_a_photograph_with_exif_data_stands_as_its_camera_says(tmp_path: Path, orientation: int):
    """How each orientation is stored, by the table of the EXIF standard: where row 0 and column 0 of the file are."""
    turns = {2: 0, 3: 3, 4: 1, 5: 5, 6: 2, 7: 6, 8: 4}  # Image.Transpose: upright → file
    upright = Image.fromarray(np.random.default_rng(0).integers(0, 256, (4, 6, 3), dtype=np.uint8))
    stored = upright if orientation == 1 else upright.transpose(Image.Transpose(turns[orientation]))
    exif = Image.Exif()
    exif[0x0112] = orientation
    stored.save(tmp_path / "turned.png", exif=exif)
    assert np.array_equal(np.asarray(open_picture(tmp_path / "turned.png")), np.asarray(upright))


def test_a_format_outside_the_list_is_refused_whatever_its_name(tmp_path: Path):
    Image.new("RGB", (4, 4)).save(tmp_path / "postscript.eps")
    (tmp_path / "postscript.eps").rename(tmp_path / "a.png")
    Image.new("RGB", (4, 4)).save(tmp_path / "b.ico")
    for name in ("a.png", "b.ico"):
        with pytest.raises(StudyError, match="no picture that can be read; known formats are PNG, JPEG"):
            open_picture(tmp_path / name)


def test_a_picture_with_too_many_pixels_is_refused_before_they_are_read(tmp_path: Path):
    header = struct.pack(">IIBBBBB", 60_000, 60_000, 1, 0, 0, 0, 0)
    chunk = struct.pack(">I", 13) + b"IHDR" + header + struct.pack(">I", zlib.crc32(b"IHDR" + header))
    (tmp_path / "bomb.png").write_bytes(b"\x89PNG\r\n\x1a\n" + chunk + b"\x00\x00\x00\x00IDAT\x00\x00\x00\x00")
    with pytest.raises(StudyError, match=r"no picture that can be read: .*pixels"):
        open_picture(tmp_path / "bomb.png")


@given(
    data=st.binary(max_size=60), place=st.integers(0, 200), form=st.sampled_from(["PNG", "JPEG", "GIF", "TIFF", "WEBP"])
)
def test_a_damaged_picture_is_read_or_refused_in_one_line(tmp_path_factory, data: bytes, place: int, form: str):
    path = tmp_path_factory.mktemp("damaged") / "a"
    good = io.BytesIO()
    Image.new("RGB", (8, 8), "red").save(good, form)
    raw = good.getvalue()
    path.write_bytes(raw[:place] + data + raw[place + len(data) :])
    try:
        assert open_picture(path).mode == "RGB"
    except StudyError as error:
        assert "no picture that can be read" in str(error) and "\n" not in str(error)
