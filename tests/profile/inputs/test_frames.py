"""A video of the user: which of its frames are taken, and what is refused in one line."""

from pathlib import Path

import pytest
from PIL import Image

from trio_profile.errors import StudyError
from trio_profile.inputs.frames import _regularly, read_video, require_video
from trio_profile.inputs.pocket.clips import clip, render
from trio_profile.inputs.workload import build
from trio_profile.records.schema import Study


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


def test_frames_a_second_follow_the_times():
    assert _regularly([0.0, 0.25, 0.5, 0.75, 1.0], 2.0) == [0, 2, 4]
    assert _regularly([5.0, 5.1, 6.2, 7.0], 1.0) == [0, 2, 3]


def test_a_file_is_decoded(folder: Path):
    av = pytest.importorskip("av")
    path, frames = folder.with_suffix(".mp4"), render(clip(0))
    with av.open(path, "w") as file:
        stream = file.add_stream("mpeg4", rate=4)
        stream.width, stream.height, stream.pix_fmt = *frames[0].size, "yuv420p"
        packets = [packet for frame in frames for packet in stream.encode(av.VideoFrame.from_image(frame))]
        file.mux(packets + stream.encode())
    assert len(read_video(str(path))) == 8 and len(read_video(str(path), 3)) == 3
    assert len(read_video(str(path), fps=1)) == 2
    path.write_text("no video")
    with pytest.raises(StudyError, match="is no video that can be read: Invalid data"):
        read_video(str(path))


def test_what_is_no_video_is_refused_in_one_line(folder: Path, tmp_path: Path):
    for frames, fps, why in ((9, None, "has 8; give fewer --frames"), (None, 1.0, "have no times; give --frames N")):
        with pytest.raises(StudyError, match=why):
            read_video(str(folder), frames, fps)
    Image.new("RGB", (20, 30)).save(folder / "9.png")
    with pytest.raises(StudyError, match="different sizes"):
        read_video(str(folder), 9)
    (tmp_path / "empty").mkdir()
    with pytest.raises(StudyError, match="has no frames"):
        read_video(str(tmp_path / "empty"))
    with pytest.raises(StudyError, match="does not exist"):
        require_video(str(tmp_path / "none.mp4"))


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
