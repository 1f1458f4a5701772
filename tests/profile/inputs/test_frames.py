"""A video of the user: which of its frames are taken, and what is refused in one line."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from PIL import Image
from transformers.video_utils import make_batched_metadata

from trio_profile.errors import StudyError
from trio_profile.inputs.frames import Frames, _rate, _regularly, read_video, require_video
from trio_profile.inputs.pocket.clips import clip, render
from trio_profile.inputs.questions import read as read_questions
from trio_profile.inputs.workload import _by_kind, build
from trio_profile.records.schema import Study


def asked_about(folder: Path, *shown: dict[str, str]) -> Path:
    """A file of questions, one about each of these pictures or videos."""
    lines = [json.dumps({**one, "question": "at the red star which digit ?", "answer": "3"}) for one in shown]
    (folder / "questions.jsonl").write_text("\n".join(lines), encoding="utf-8")
    return folder / "questions.jsonl"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the frames of a clip as pictures: 0.png … 7.png."""
    for number, frame in enumerate(render(clip(0))):
        frame.save(tmp_path / f"{number}.png")
    return tmp_path


def test_frames_of_a_folder_are_chosen_evenly(folder: Path):
    frames = render(clip(0))
    for count, numbers in ((None, range(8)), (1, [4]), (2, [2, 6]), (8, range(8))):
        read = read_video(str(folder), count)
        assert [one.tobytes() for one in read] == [frames[number].tobytes() for number in numbers]


def test_frames_of_a_folder_are_in_the_order_of_their_numbers(tmp_path: Path):
    for number in range(11):
        Image.new("L", (4, 4), number).save(tmp_path / f"frame{number}.png")
    (tmp_path / "notes.txt").write_text("no frame")
    assert [picture.getpixel((0, 0))[0] for picture in read_video(str(tmp_path), 11)] == list(range(11))


def test_frames_a_second_follow_the_times():
    assert _regularly([0.0, 0.25, 0.5, 0.75, 1.0], 2.0, "a.mp4") == [0, 2, 4]
    assert _regularly([5.0, 5.1, 6.2, 7.0], 1.0, "a.mp4") == [0, 2, 3]
    for times in ([0.0, None, 1.0], [None, None], [1.0, 0.0]):
        with pytest.raises(StudyError, match="without a time, or out of order; give --frames N"):
            _regularly(times, 1.0, "a.mp4")
    with pytest.raises(StudyError, match=r"that is 7201 frames of video 'a[.]mp4'; give --fps 1, or --frames"):
        _regularly([0.0, 3600.0], 2.0, "a.mp4")


def write_video(path: Path, frames: list[Image.Image], rotation: int = 0) -> None:
    """A video of four frames a second. rotation: by how many degrees it is shown turned to the left."""
    av = pytest.importorskip("av")
    with av.open(path, "w") as file:
        stream = file.add_stream("mpeg4", rate=4)
        stream.width, stream.height, stream.pix_fmt = *frames[0].size, "yuv420p"
        stream.set_display_rotation(rotation)
        packets = [packet for frame in frames for packet in stream.encode(av.VideoFrame.from_image(frame))]
        file.mux(packets + stream.encode())


def test_a_file_is_decoded_and_its_processor_learns_the_times(tmp_path: Path):
    path = tmp_path / "clip.mp4"
    write_video(path, render(clip(0)))
    assert len(read_video(str(path))) == 8 and len(read_video(str(path), 3)) == 3
    read = read_video(str(path), fps=1)
    assert len(read) == 2
    (metadata,) = make_batched_metadata([read], _by_kind([read], ["?"])["video_metadata"])
    assert metadata.timestamps == [0, 1] and metadata.sampled_fps == 1


def test_the_rate_of_a_video_needs_times():
    assert _rate([1.0, 1.5, 3.0]) == 1
    assert _rate([1.0]) is _rate([None, 2.0]) is _rate([1.0, 1.0]) is None
    assert "video_metadata" not in _by_kind([Frames([Image.new("RGB", (4, 4))])], ["?"])


def test_a_file_is_read_as_it_is_shown(tmp_path: Path):
    """The left half is white. Turned to the left by 90 degrees, the lower half is."""
    lying, path = Image.new("RGB", (64, 32)), tmp_path / "clip.mp4"
    lying.paste("white", (0, 0, 32, 32))
    write_video(path, [lying], 90)
    (upright,) = read_video(str(path), 1)
    assert upright.size == (32, 64)
    assert min(upright.getpixel((16, 60))) > 200 > 50 > max(upright.getpixel((16, 4)))


def test_a_file_without_pictures_is_refused_in_one_line(tmp_path: Path):
    av = pytest.importorskip("av")
    with av.open(sound := tmp_path / "sound.mp4", "w") as file:
        stream = file.add_stream("aac", rate=8000)
        silence = av.AudioFrame(format="fltp", layout="mono", samples=1024)
        silence.sample_rate, silence.pts = 8000, 0
        for plane in silence.planes:
            plane.update(bytes(plane.buffer_size))
        file.mux(stream.encode(silence) + stream.encode())
    (tmp_path / "text.mp4").write_text("no video")
    for path, why in (
        (sound, "has no pictures, only sound or text"),
        (tmp_path / "text.mp4", "Invalid data .*the formats"),
    ):
        with pytest.raises(StudyError, match=why):
            read_video(str(path))


def test_what_is_no_video_is_refused_in_one_line(folder: Path, tmp_path: Path):
    for frames, fps, why in ((9, None, "has only 8; give --frames 8"), (None, 1.0, "have no times; give --frames N")):
        with pytest.raises(StudyError, match=why):
            read_video(str(folder), frames, fps)
    Image.new("RGB", (20, 30)).save(folder / "9.png")
    with pytest.raises(StudyError, match="different sizes, such as 20 × 30 and 192 × 192"):
        read_video(str(folder), 9)
    (tmp_path / "empty").mkdir()
    with pytest.raises(StudyError, match="has no pictures; put JPEG or PNG files there"):
        read_video(str(tmp_path / "empty"))
    for name, why in (
        ("none.mp4", "does not exist; name a video file"),
        ("a" * 300, "cannot be read: File name too long"),
    ):
        with pytest.raises(StudyError, match=why):
            require_video(str(tmp_path / name))


def test_pocket_video_is_asked_about_a_video_of_the_user(folder: Path):
    study = Study(model="pocket-video", video=str(folder), prompt="which unknown word ?", fidelity_inputs=1)
    workload = build(study)
    assert workload.shape.visual_tokens == 8 * 144 + 1 and not workload.random_pixels
    assert [question.text for question in workload.questions] == [study.prompt]


def test_a_model_refuses_videos_and_prompts_that_are_too_long(folder: Path):
    video = str(folder)
    with pytest.raises(StudyError, match=r"LLaVA-1\.5 has no videos"):
        build(Study(model="pocket", video=video))
    with pytest.raises(StudyError, match="'pocket-video' has 2048 positions for it and 1000 new tokens; give fewer"):
        build(Study(model="pocket-video", video=video, new_tokens=1000))


def test_questions_about_videos_are_asked_with_the_frames_that_the_study_chooses(folder: Path):
    """By any video model; where the study names no input of its own, the first of these videos is timed."""
    frames = folder / "frames"
    frames.mkdir()
    for number, frame in enumerate([*render(clip(0)), *render(clip(1))]):
        frame.save(frames / f"{number}.png")
    asked = asked_about(folder, *[{"video": "frames"}] * 10)
    workload = build(Study(model="pocket-video", questions=str(asked), frames=8))
    assert not workload.random_pixels
    for name, value in workload.inputs_of(0).items():  # the first question is timed
        assert torch.equal(value, workload.inputs[name].to(value.dtype)), name
    (first, *_), read = workload.questions, read_video(str(frames), 8)
    assert first.is_of_video and first.source == str(frames.resolve())
    assert [one.tobytes() for one in first.picture()] == [one.tobytes() for one in read]
    for fields, why in (
        ({"model": "pocket"}, r"video of question 'at the red star .*': LLaVA-1\.5 has no videos"),
        ({"model": "pocket-video", "frames": 17}, r"line 1: frames = 17: video .* has only 16; give --frames 16"),
        ({"model": "pocket-video", "new_tokens": 1000}, r"the video of question 'at the red star .* 1000 new tokens"),
    ):
        with pytest.raises(StudyError, match=why):
            build(Study(questions=str(asked), **fields))


def test_a_question_whose_video_is_too_long_is_named(folder: Path):
    """The timed input may be shorter."""
    workload = build(Study(model="pocket-video", video=str(folder), prompt="which digit ?", fidelity_inputs=1))
    with pytest.raises(StudyError, match=r"question 1, .*its video makes a prompt of \d+ tokens"):
        replace(workload, new_tokens=1000).inputs_of(0)


def test_a_file_about_pictures_and_videos_is_refused(folder: Path):
    asked = asked_about(folder, {"image": "0.png"}, *[{"video": "."}] * 9)
    with pytest.raises(StudyError, match="are about pictures and about videos: ask them in two studies"):
        build(Study(model="pocket-video", questions=str(asked)))


def test_a_video_is_read_once_to_check_it(folder: Path):
    read: list[str] = []
    questions = read_questions(asked_about(folder, *[{"video": "."}] * 10), read.append)
    assert len(questions) == 10 and len(read) == 1


def test_frames_of_questions_about_pictures_are_refused(folder: Path):
    asked = asked_about(folder, *[{"image": "0.png"}] * 10)
    with pytest.raises(StudyError, match="choose from a video, and the questions have none: leave them out"):
        build(Study(model="pocket", questions=str(asked), frames=2))
