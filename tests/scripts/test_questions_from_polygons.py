"""`scripts/questions_from_polygons`: the questions about pictures with polygons, and their answers."""

import json
import runpy
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from tests.profile.labelled import FRAMES, PHOTOGRAPHS, needs_labels
from trio_profile.inputs.questions import pictures_of
from trio_profile.inputs.questions import read as read_questions

SCRIPT = runpy.run_path(str(Path(__file__).parents[2] / "scripts" / "questions_from_polygons"))


def shape(label: str, left: float, right: float, **fields: Any) -> dict[str, Any]:
    """A polygon between two columns of pixels."""
    points = [[left, 5], [right, 5], [right, 20], [left, 20]]
    return {"label": label, "points": points, "group_id": None, "shape_type": "polygon", **fields}


def label(directory: Path, name: str, *shapes: dict[str, Any], **fields: Any) -> None:
    """A picture of 100 × 50 pixels with its labelme file."""
    Image.new("L", (100, 50)).save(directory / f"{name}.png")
    content = {"imagePath": f"{name}.png", "imageWidth": 100, "shapes": shapes, **fields}
    (directory / f"{name}.json").write_text(json.dumps(content), encoding="utf-8")


@pytest.fixture
def kitchen(tmp_path: Path) -> Path:
    """a: a cat left of a cup, and a dog in two parts. b: two cups. c: a cup, and something that is ignored."""
    dog = [shape("dog", 40, 44, group_id=3), shape("dog", 50, 54, group_id=3)]
    label(tmp_path, "a", shape("cup", 80, 90), shape("cat", 0, 20), *dog)
    label(tmp_path, "b", shape("cup", 0, 10), shape("cup", 20, 30), shape("line", 0, 99, shape_type="line"))
    label(tmp_path, "c", shape("cup", 0, 10), shape("__ignore__", 20, 30))
    return tmp_path


def asked(directory: Path, image: str, kind: str) -> dict[str, str]:
    """The questions of a kind about a picture, with their answers."""
    lines = [json.loads(line) for line in (directory / "questions.jsonl").read_text(encoding="utf-8").splitlines()]
    return {one["question"]: one["answer"] for one in lines if (one["image"], one["kind"]) == (f"{image}.png", kind)}


def presence(what: str) -> str:
    return f"Is there any {what} in the picture? Answer yes or no."


def count(what: str) -> str:
    return f"How many objects of the kind {what} are in the picture? Answer with a number."


def left(one: str, other: str) -> str:
    return f"Which is further left in the picture: {one} or {other}? Answer with the name only."


def test_the_answers_are_those_of_the_polygons_and_the_file_can_be_read(kitchen: Path):
    out, number, pictures = SCRIPT["write"](kitchen, one_scene=False)
    assert (out, number, pictures) == (kitchen / "questions.jsonl", 13, 3)
    assert len(read_questions(out)) == number
    assert asked(kitchen, "a", "presence") == dict.fromkeys(map(presence, ("cat", "cup", "dog")), "yes")
    assert asked(kitchen, "b", "presence") == {presence("cup"): "yes", presence("dog"): "no"}
    assert asked(kitchen, "a", "count") == dict.fromkeys(map(count, ("cat", "cup", "dog")), "1")
    assert asked(kitchen, "b", "count") == {count("cup"): "2"}
    sides = {left("cat", "cup"): "cat", left("dog", "cat"): "cat", left("dog", "cup"): "dog"}
    assert asked(kitchen, "a", "left") == sides
    assert asked(kitchen, "b", "left") == {}


def test_a_picture_with_an_ignored_shape_is_asked_only_for_what_it_has(kitchen: Path):
    SCRIPT["write"](kitchen, one_scene=False)
    assert asked(kitchen, "c", "presence") == {presence("cup"): "yes"}
    assert asked(kitchen, "c", "count") == {}


def test_a_label_that_also_has_a_mask_in_a_picture_is_not_asked_about_there(kitchen: Path):
    mask = {"label": "cup", "points": [[60, 5], [70, 20]], "shape_type": "mask"}
    label(kitchen, "b", shape("cup", 0, 10), mask, shape("cat", 40, 50))
    label(kitchen, "c", {**mask, "label": "dog"}, shape("cup", 0, 10))
    SCRIPT["write"](kitchen, one_scene=False)
    assert asked(kitchen, "b", "presence") == {presence("cat"): "yes", presence("dog"): "no"}
    assert asked(kitchen, "b", "count") == {count("cat"): "1"}
    assert asked(kitchen, "b", "left") == {}
    assert asked(kitchen, "c", "presence") == {presence("cup"): "yes", presence("cat"): "no"}


def test_frames_of_one_scene_count_as_one_picture(kitchen: Path):
    out, number, _ = SCRIPT["write"](kitchen, one_scene=True)
    assert pictures_of(read_questions(out)) == (0,) * number
    out, *_ = SCRIPT["write"](kitchen, one_scene=False)
    assert set(pictures_of(read_questions(out))) == {0, 1, 2}


@needs_labels
def test_photographs_and_frames_of_a_video_with_polygons_become_questions(tmp_path: Path):
    found = {}
    for source, one_scene in ((PHOTOGRAPHS, False), (FRAMES, True)):
        directory = shutil.copytree(source, tmp_path / source.parent.name)
        out, *_ = SCRIPT["write"](directory, one_scene=one_scene)
        found[source] = read_questions(out)
    assert len(set(pictures_of(found[PHOTOGRAPHS]))) == 3
    assert [one.answer for one in found[PHOTOGRAPHS] if one.kind == "count"] == ["2", "1"]  # two buses and one car
    assert [one.answer for one in found[PHOTOGRAPHS] if one.kind == "left"] == ["sofa"]
    assert set(pictures_of(found[FRAMES])) == {0}
    assert len({one.picture().tobytes() for one in found[FRAMES]}) == 5


def test_what_cannot_be_used_is_refused_in_one_line(tmp_path: Path, monkeypatch, capsys):
    for fields, says in (
        ({"imagePath": "../a.png"}, "imagePath '../a.png' is outside the directory"),
        ({"imagePath": "none.png"}, "none.png' does not exist"),
        ({"imageWidth": 640}, "imageWidth is 640, and a.png is 100 pixels wide"),
        ({"shapes": None}, "a.json is no labelme file: TypeError"),
        ({}, "gives 2 questions; an interval needs at least 10"),
    ):
        label(tmp_path, "a", shape("cup", 0, 10), **fields)
        monkeypatch.setattr(sys, "argv", ["questions_from_polygons", str(tmp_path)])
        assert SCRIPT["main"]() == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert says in line
        assert not (tmp_path / "questions.jsonl").exists()
