"""Saved checkpoints read a video, and methods prune it. `make videos` runs these tests with torchvision."""

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from transformers import AutoProcessor
from transformers.utils.import_utils import is_torchvision_available

from tests.profile.family_checkpoints import FILES, Saved
from tests.profile.inputs.test_frames import write_video
from trio_core import prune
from trio_profile.inputs.pocket.clips import clip, render
from trio_profile.inputs.processors import VIDEO, FrameByFrame, video_reader
from trio_profile.inputs.workload import build
from trio_profile.records.schema import Study

FRAMES = 4
ALONE = ("LLaVA-NeXT-Video", "LLaVA-OneVision", "Video-LLaVA")
"""Families whose video processor prepares each frame by itself."""
READ = sorted(name for name, files in FILES.items() if files.frames)
with_torchvision = pytest.mark.skipif(not is_torchvision_available(), reason="no torchvision: run `make videos`")
families = pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in ALONE else with_torchvision) for name in READ]
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A folder with the frames of a clip as pictures."""
    found = tmp_path_factory.mktemp("frames")
    for number, frame in enumerate(render(clip(0))):
        frame.save(found / f"{number}.png")
    return found


@families
def test_a_saved_checkpoint_reads_a_video_and_is_pruned(saved: Saved, folder: Path, name: str):
    study = Study(model=str(saved(name)), video=str(folder), frames=FRAMES, prompt="What is this?", new_tokens=2)
    workload = build(study)
    seen = FRAMES // 2 if name.startswith("Qwen") else FRAMES  # there a token is of two frames
    assert (workload.shape.frames, "pixel_values_videos" in workload.inputs) == (seen, True)
    dense = workload.generate()
    for method in ("evs", "vidcom2", "trio"):
        with prune(workload.model, method, retention=0.5) as trace:
            assert workload.generate().shape == dense.shape
        assert trace.stages[-1].tokens_after < workload.shape.visual_tokens


@families
def test_a_file_is_read_by_the_times_of_its_frames(saved: Saved, tmp_path: Path, name: str):
    path = tmp_path / "clip.mp4"
    write_video(path, render(clip(0)))  # four frames a second
    study = Study(model=str(saved(name)), video=str(path), fps=2, prompt="What is this?", new_tokens=2)
    assert build(study).shape.frames == (2 if name.startswith("Qwen") else 4)


@pytest.mark.parametrize("name", ALONE)
def test_frames_are_resized_and_cut_as_the_checkpoint_says(saved: Saved, name: str):
    frames = [Image.new("RGB", (40, 30), "white")] * 3
    read = video_reader(str(saved(name)))
    assert isinstance(read, FrameByFrame)
    pixels = read(videos=[frames, frames])["pixel_values_videos"]
    assert pixels.shape == (2, 3, 3, 16, 16)
    white = (1 - torch.tensor(read.image_mean)) / torch.tensor(read.image_std)
    assert torch.allclose(pixels, white[:, None, None].expand_as(pixels), atol=1e-5)
    with pytest.raises(ValueError, match="videos of 2 and 3 frames in one batch; give --frames"):
        read(videos=[frames, frames[:2]])


@with_torchvision
@pytest.mark.parametrize(
    ("size", "most", "mean"),
    [
        ((16, 16), 0.01, 0.01),
        ((40, 30), 1.01, 0.02),  # levels of 256: PIL rounds in another way
        ((33, 7), 1.01, 0.02),
        ((7, 33), 16.0, 0.5),  # wider and shorter at once: PIL also resizes in another order
    ],
)
@pytest.mark.parametrize("name", ALONE)
def test_its_pixels_are_close_to_those_of_torchvision(saved: Saved, name: str, size, most: float, mean: float):
    directory = str(saved(name))
    noise = np.random.default_rng(0).integers(0, 256, (3, *size[::-1], 3), dtype=np.uint8)
    frames = [Image.fromarray(one) for one in noise]
    own = getattr(AutoProcessor.from_pretrained(directory), VIDEO)
    theirs = own(videos=[frames], return_tensors="pt")["pixel_values_videos"]
    ours = video_reader(directory)(videos=[frames])["pixel_values_videos"]
    levels = (ours - theirs).abs() * torch.tensor(own.image_std)[:, None, None] / own.rescale_factor
    assert ours.shape == theirs.shape and levels.max() <= most and levels.mean() <= mean
