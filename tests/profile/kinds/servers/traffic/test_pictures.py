import io
from base64 import b64decode

import numpy as np
import pytest
from PIL import Image

from trio_profile.errors import StudyError
from trio_profile.kinds.servers.traffic.pictures import DEFAULT_PROMPT, Picture, Pictures


def opened(shown: Picture) -> Image.Image:
    return Image.open(io.BytesIO(b64decode(shown.url.partition(",")[2])))


@pytest.fixture
def directory(tmp_path):
    for number in range(3):
        Image.radial_gradient("L").resize((120, 80 + number)).rotate(number).save(tmp_path / f"{number}.png")
    (tmp_path / "notes.txt").write_text("no picture")
    return tmp_path


def test_drawn_pictures_are_all_different_and_each_has_a_question():
    pictures = Pictures(None, None, seed=3)
    pictures.prepare(4)
    shown = [pictures.take()]
    pictures.prepare(4)
    shown += [pictures.take() for _ in range(5)]
    assert [one.number for one in shown] == list(range(6))
    assert len({one.url for one in shown}) == 6
    assert all("?" in one.prompt for one in shown)
    assert opened(shown[0]).size == (192, 192)


def test_pictures_that_need_too_much_memory_are_refused(monkeypatch):
    monkeypatch.setattr("trio_profile.kinds.servers.traffic.pictures._MOST_CHARACTERS", 20_000)
    with pytest.raises(StudyError, match="100 pictures of a segment need more than 0 GB; ask for fewer"):
        Pictures(None, None).prepare(100)


def test_pictures_of_a_directory_are_cut_out_at_another_place_each_time(directory):
    pictures = Pictures(directory, None, needed=60)
    shown = [pictures.take() for _ in range(60)]
    assert len({one.url for one in shown}) == 60
    assert len({opened(one).size for one in shown}) == 3  # each file keeps one size
    assert {one.prompt for one in shown} == {DEFAULT_PROMPT}


def test_cut_outs_that_are_equal_are_left_out(tmp_path):
    Image.new("RGB", (80, 80), "red").save(tmp_path / "a.png")
    Image.radial_gradient("L").save(tmp_path / "b.png")
    pictures = Pictures(tmp_path, None, needed=30)
    shown = [pictures.take() for _ in range(20)]
    assert len({one.url for one in shown}) == 20
    assert [one.number for one in shown][:4] == [0, 1, 3, 5]


@pytest.mark.parametrize("drawn", [True, False])
def test_a_video_is_a_picture_that_moves_by_a_pixel_from_frame_to_frame(drawn, directory):
    pictures = Pictures(None if drawn else directory, None, frames=3, needed=2)
    first, second = pictures.take(), pictures.take()
    assert (first.kind, Picture(0, "", "").kind) == ("video_url", "image_url")
    head, *frames = first.url.split(",")
    assert head == "data:video/jpeg;base64" and len(frames) == 3
    assert not set(frames) & set(second.url.split(",")[1:])
    still, moved = (np.asarray(opened(Picture(0, f",{frame}", "")), dtype=float) for frame in frames[:2])
    assert np.abs(np.roll(still, 1, axis=1) - moved).mean() < np.abs(still - moved).mean()


def test_too_few_pictures_are_refused_before_anything_is_sent(directory):
    with pytest.raises(StudyError, match=r"has 3 pictures: they give at most 363 different cut-outs, and .* 1250"):
        Pictures(directory, None, needed=1000)


def test_a_directory_without_pictures_is_refused(tmp_path):
    with pytest.raises(StudyError, match="has no pictures"):
        Pictures(tmp_path, None)
    with pytest.raises(StudyError, match="cannot be read: No such file"):
        Pictures(tmp_path / "nowhere", None)
    (tmp_path / "a.png").write_text("no picture")
    with pytest.raises(StudyError, match=r"a\.png' is no picture"):
        Pictures(tmp_path, None)
