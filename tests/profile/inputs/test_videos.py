"""Saved checkpoints read a video, and methods prune it. `make videos` runs these tests with torchvision."""

from pathlib import Path

import pytest
from transformers.utils.import_utils import is_torchvision_available

from tests.profile.family_checkpoints import FILES, Saved
from tests.profile.inputs.test_frames import write_video
from trio_core import prune
from trio_profile.inputs.pocket.clips import clip, render
from trio_profile.inputs.workload import build
from trio_profile.records.schema import Study

FRAMES = 4
READ = sorted(name for name, files in FILES.items() if files.frames)
pytestmark = pytest.mark.skipif(not is_torchvision_available(), reason="no torchvision: run `make videos`")
families = pytest.mark.parametrize("name", READ)


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
