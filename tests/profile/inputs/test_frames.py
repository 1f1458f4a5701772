"""A video of the user: which of its frames are taken, and what is refused in one line."""

import json
import resource
import struct
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch
from PIL import Image
from transformers.models.qwen3_vl.processing_qwen3_vl import Qwen3VLProcessor
from transformers.video_utils import make_batched_metadata

from tests.core.tiny import fast_first
from trio_profile.errors import StudyError
from trio_profile.inputs.frames import Frames, _metadata, _regularly, read_video, require_video
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
    times = [Fraction(n, 30) for n in range(301)]
    assert _regularly(times, 0.3, "a.mp4") == [0, 100, 200, 300]  # those that stand exactly at a step
    assert _regularly(times, 10, "a.mp4") == list(range(0, 301, 3))
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


def test_metadata_need_times_in_order():
    times = [Fraction(1), Fraction(3, 2), Fraction(3)]
    assert _metadata(times, [1, 2]) == {
        "total_num_frames": 6,
        "fps": 2.0,
        "duration": 3.0,
        "frames_indices": [1, 4],
    }
    for unknown in ([Fraction(1)], [None, Fraction(2)], [Fraction(1)] * 2, [*times, Fraction(2)]):
        assert _metadata(unknown, [0]) is None
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
    # The timed input may be shorter than a question.
    workload = build(Study(model="pocket-video", video=video, prompt="which digit ?", fidelity_inputs=1))
    with pytest.raises(StudyError, match=r"question 1, .*its video makes a prompt of \d+ tokens"):
        replace(workload, new_tokens=1000).inputs_of(0)


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


@pytest.mark.parametrize(
    ("model", "media", "frames", "says"),
    [
        ("pocket-video", [{"video": "."}] * 9, None, "are about pictures and about videos: ask them in two studies"),
        ("pocket", [{"image": "0.png"}] * 9, 2, "choose from a video, and the questions have none: leave them out"),
    ],
)
def test_questions_about_pictures_have_no_frames_and_no_videos_among_them(folder: Path, model, media, frames, says):
    asked = asked_about(folder, {"image": "0.png"}, *media)
    with pytest.raises(StudyError, match=says):
        build(Study(model=model, questions=str(asked), frames=frames))


def test_a_video_is_read_once_to_check_it(folder: Path):
    read: list[str] = []
    questions = read_questions(asked_about(folder, *[{"video": "."}] * 10), read.append)
    assert len(questions) == 10 and len(read) == 1


# --- videos that somebody else made ---------------------------------------------------------------------------------


def write_noise(
    path: Path, times: Sequence[Fraction] = (), *, count: int = 30, size: tuple[int, int] = (64, 48), **options: str
) -> bytes:
    """Write a video in the container that its name ends with. times: of its frames. Returns its bytes."""
    av, form = pytest.importorskip("av"), path.name.rpartition(".")[2]
    codec = {"webm": "libvpx", "gif": "gif", "mpg": "mpeg2video", "ts": "mpeg2video"}.get(form, "mpeg4")
    draw = np.random.default_rng(0)
    names = {"mkv": "matroska", "mpg": "mpeg", "ts": "mpegts"}
    with av.open(path, "w", format=names.get(form, form), options=options) as container:
        container.metadata["title"] = "CafXX"
        stream = container.add_stream(codec, rate=25 if codec == "mpeg2video" else 8)
        (stream.width, stream.height), stream.pix_fmt = size, "rgb8" if form == "gif" else "yuv420p"
        if times:
            stream.codec_context.time_base = stream.time_base = Fraction(1, 1000)
        for number in range(len(times) or count):
            frame = av.VideoFrame.from_ndarray(draw.integers(0, 256, (*size[::-1], 3), dtype=np.uint8), format="rgb24")
            if times:
                frame.pts, frame.time_base = int(times[number] * 1000), Fraction(1, 1000)
            container.mux(stream.encode(frame.reformat(format=stream.pix_fmt)))
        container.mux(stream.encode())
    return path.read_bytes()


CONTAINERS = {
    "mp4": {},
    "faststart.mp4": {"movflags": "faststart"},
    "fragments.mp4": {"movflags": "frag_keyframe+empty_moov"},
    "mov": {},
    "avi": {},
    "mkv": {},
    "webm": {},
    "live.webm": {"live": "1"},
    "gif": {},
    "mpg": {},
    "ts": {},
}
"""Containers, with the options of the program that writes them."""


@pytest.mark.parametrize("name", fast_first(CONTAINERS, next(iter(CONTAINERS))))
def test_a_file_that_was_cut_off_is_named(tmp_path: Path, name: str):
    """Whatever is cut away. A stream that is cut between two frames is whole: it has no end of its own."""
    path = tmp_path / name
    whole = write_noise(path, **CONTAINERS[name])
    assert len(read_video(str(path), 30)) == 30
    ends = {len(whole) * part // 40 for part in range(1, 40)} | {len(whole) - missing for missing in (1, 2, 5, 9, 70)}
    cut_off = 0
    for end in sorted(ends):
        path.write_bytes(whole[:end])
        try:
            read_video(str(path))
        except StudyError as error:
            assert "\n" not in str(error)
            cut_off += f"video {str(path)!r} is cut off: its end is missing or damaged" in str(error)
    assert cut_off >= len(ends) - (1 if name in STREAMS else 0)


STREAMS = ("ts", "live.webm", "fragments.mp4")


@pytest.mark.parametrize("name", [name for name in CONTAINERS if name.rpartition(".")[2] not in ("gif", "mpg", "ts")])
def test_a_title_may_have_any_encoding(tmp_path: Path, name: str):
    data = write_noise(tmp_path / name, count=8, **CONTAINERS[name])
    assert b"CafXX" in data
    for title in ("Café ".encode("latin-1"), "кот".encode("cp1251") + b"  ", "猫".encode("shift-jis") + b"   "):
        (tmp_path / name).write_bytes(data.replace(b"CafXX", title))
        assert len(read_video(str(tmp_path / name))) == 8


@pytest.mark.parametrize("form", ["mp4", "mov", "mkv", "webm"])
def test_the_times_of_frames_reach_the_processor_at_any_rate(tmp_path: Path, form: str):
    """A camera that waits, and a video that begins late: time counts from its first frame."""
    times = [Fraction(n, 50) for n in range(15)] + [Fraction(n, 10) for n in (7, 11, 15, 19, 23)]
    for start in (0, Fraction(5)):
        write_noise(tmp_path / form, [start + time for time in times])
        read = read_video(str(tmp_path / form), 4)
        (metadata,) = make_batched_metadata([read], _by_kind([read], ["?"])["video_metadata"])
        assert metadata.timestamps == pytest.approx([0.04, 0.14, 0.24, 1.5], abs=2e-3)
        assert metadata.duration == pytest.approx(2.3 * 20 / 19, abs=2e-3)
        assert metadata.sampled_fps == pytest.approx(4 / metadata.duration, rel=2e-3)
        labels = Qwen3VLProcessor._calculate_timestamps(cast(Any, None), metadata.frames_indices, metadata.fps, 1)
        assert labels == metadata.timestamps
    assert len(read_video(str(tmp_path / form), fps=2)) == 5  # at 0, 0.7, 1.1, 1.5 and 2.3 s


def test_frames_have_as_many_pixels_as_a_picture_at_most(tmp_path: Path):
    """The header of a small file says 16 000 × 16 000: a decoder would take 1 GB for a frame. It is not taken."""
    pictures = [Image.new("P", (40, 30), colour) for colour in range(2)]
    pictures[0].save(file := tmp_path / "bomb.gif", save_all=True, append_images=pictures[1:])
    data = file.read_bytes()
    file.write_bytes(data[:6] + struct.pack("<HH", 16_000, 16_000) + data[10:])
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(StudyError, match=r"video '.*bomb.gif' has no frames, or frames of more than 100000000 pixels"):
        read_video(str(file))
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000  # kB
    file.write_bytes(data[:6] + struct.pack("<HH", 9_000, 60) + data[10:])
    with pytest.raises(StudyError, match="9000 × 60 pixels; one side can be 100 times as long as the other"):
        read_video(str(file))


def test_frames_of_a_file_have_one_size(tmp_path: Path):
    """A recording may go on with another camera. No processor shows how it would join the frames."""
    parts = [write_noise(tmp_path / "part.ts", count=4, size=size) for size in ((64, 48), (96, 64))]
    (tmp_path / "a.ts").write_bytes(b"".join(parts))
    with pytest.raises(StudyError, match=r"a.ts': its frames have different sizes, such as 64 × 48 and 96 × 64; give"):
        read_video(str(tmp_path / "a.ts"))


def test_all_frames_have_a_limit_of_pixels_together(tmp_path: Path, monkeypatch):
    monkeypatch.setattr("trio_profile.inputs.frames.MOST_VIDEO_PIXELS", 64 * 48 * 8)
    write_noise(tmp_path / "a.mp4")
    (tmp_path / "frames").mkdir()
    for number in range(9):
        Image.new("RGB", (64, 48)).save(tmp_path / "frames" / f"{number}.png")
    for name in ("a.mp4", "frames"):
        assert len(read_video(str(tmp_path / name), 8)) == 8
        with pytest.raises(StudyError, match=r"9 frames of 64 × 48 pixels; at most 24576 pixels are read; give fewer"):
            read_video(str(tmp_path / name), 9)
