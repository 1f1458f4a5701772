"""Digests of what is measured."""

import json
import os

from tests.profile.examples import study
from trio_profile.inputs.digest import BLOCK, BLOCKS, input_digests, of_file, of_questions
from trio_profile.records.schema import FileDigest


def test_the_digest_of_a_file_is_its_size_and_its_hash_and_what_is_no_file_has_none(tmp_path):
    (tmp_path / "a").write_bytes(b"abc")
    # SHA-256 of "abc", FIPS 180-2
    assert of_file(tmp_path / "a") == FileDigest(bytes=3, sha256="ba7816bf8f01cfea")
    os.mkfifo(tmp_path / "pipe")
    assert [of_file(tmp_path / name) for name in ("pipe", ".", "missing", "a\0b", "x" * 300)] == [None] * 5


def test_a_large_file_is_sampled_from_its_first_to_its_last_byte(tmp_path):
    size = 2 * BLOCK * BLOCKS + 7
    (tmp_path / "weights").write_bytes(bytes(size))
    before = of_file(tmp_path / "weights")
    for place in (0, size - 1):
        with (tmp_path / "weights").open("r+b") as file:
            file.seek(place)
            file.write(b"x")
        assert of_file(tmp_path / "weights") != before
        before = of_file(tmp_path / "weights")


def test_a_model_of_the_hub_has_a_digest_once_it_is_downloaded(tmp_path, monkeypatch):
    (tmp_path / "config.json").write_text("{}")
    assert input_digests(study(model="owner/model")) == {}
    monkeypatch.setattr(
        "huggingface_hub.try_to_load_from_cache", lambda model, name: str(tmp_path / name) if "/" in model else None
    )
    assert set(input_digests(study(model="owner/model"))) == {"model/config.json"}


def test_each_frame_of_a_video_that_a_question_names_counts(tmp_path):
    file, clip = tmp_path / "questions.jsonl", tmp_path / "clip"
    clip.mkdir()
    file.write_text('{"video": "clip", "question": "What?"}\n{"video": "a.mp4", "question": "What?"}')
    seen = []
    for name in ("clip/0.png", "clip/1.png", "a.mp4"):
        (tmp_path / name).write_bytes(b"frame")
        seen.append(of_questions(file)["questions/pictures"])
    assert [one.bytes for one in seen] == [5, 10, 15]
    assert len({one.sha256 for one in seen}) == 3
    file.write_text(json.dumps({"video": "a" * 300, "question": "What?"}))
    assert of_questions(file)["questions/pictures"].bytes == 0


def test_questions_and_their_pictures_are_told_apart(tmp_path):
    (tmp_path / "a.png").write_bytes(b"one")
    file = tmp_path / "q.jsonl"
    file.write_text(json.dumps({"image": "a.png", "question": "?"}) + "\nno question\n")
    asked = study(questions=str(file), image=str(tmp_path / "a.png"))
    before = input_digests(asked)
    assert set(before) == {"questions", "questions/pictures", "image"}
    (tmp_path / "a.png").write_bytes(b"two")
    after = input_digests(asked)
    assert [name for name in before if before[name] != after[name]] == ["image", "questions/pictures"]


def test_a_directory_named_like_a_built_in_model_is_not_what_is_measured(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    before = input_digests(study(model="pocket"))
    for name in ("llava-1.5-7b", "pocket"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text("{}")
    assert input_digests(study(model="llava-1.5-7b")) == {}
    assert input_digests(study(model="pocket")) == before


def test_files_of_a_checkpoint_count_and_those_of_a_study_in_it_do_not(tmp_path):
    matter = ("config.json", "model.safetensors", "tokenizer.json", "processor/config.json")
    others = ("README.md", "log.csv", "out/flops.json", "trace.json", ".lock.txt", ".git/a.json")
    for name in (*matter, *others):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("{}")
    assert set(input_digests(study(model=str(tmp_path)))) == {f"model/{name}" for name in matter}
