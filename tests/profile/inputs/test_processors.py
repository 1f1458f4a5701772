import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from transformers import AutoProcessor
from transformers.utils.import_utils import is_torchvision_available

from tests.core.tiny import fast_first
from tests.profile.command import document
from tests.profile.family_checkpoints import FILES, WITH_TORCHVISION, Saved
from trio_core import prune
from trio_core.models import families
from trio_profile.errors import StudyError
from trio_profile.inputs.models import load
from trio_profile.inputs.processors import FrameByFrame, NoVideos, load_processor, load_with_pixels
from trio_profile.inputs.questions import open_picture
from trio_profile.inputs.workload import ask, build
from trio_profile.records.schema import Study

QUICK = ("LLaVA-1.5", "Qwen2.5-VL")
READ_VIDEOS = sorted(name for name, files in FILES.items() if files.video)
REFUSE_VIDEOS = sorted({*READ_VIDEOS} - {"LLaVA-NeXT-Video", "LLaVA-OneVision", "Video-LLaVA"})
"""Families whose videos are refused without torchvision. `test_videos` reads those of the others."""
without_torchvision = pytest.mark.skipif(is_torchvision_available(), reason="torchvision is installed")


def test_every_family_has_a_checkpoint():
    assert set(FILES) | WITH_TORCHVISION == set(families)


@pytest.mark.parametrize("name", fast_first(sorted(FILES), *QUICK))
def test_every_family_answers_about_a_photograph_from_its_saved_checkpoint(saved: Saved, photograph: Path, name: str):
    """Two prompts with a picture each: real processor, tokenizer and chat template. Half of the visual tokens stay."""
    attention = "eager" if name == "FastVLM" else families[name].toy_attention[-1]  # ConvNeXt knows no sdpa
    workload = build(
        Study(
            model=str(saved(name)),
            image=str(photograph),
            prompt="What is this?",
            batch=2,
            attention=attention,
            new_tokens=2,
        )
    )
    text = workload.processor.tokenizer.decode(workload.inputs["input_ids"][0])
    assert "What is this ?" in text
    assert "<unk>" not in text
    tokens = workload.shape.visual_tokens
    with prune(workload.model, "random", retention=0.5, layers=(2,), budget_rule="after-prune") as trace:
        answer = workload.generate()
    assert answer.shape == (2, workload.inputs["input_ids"].shape[1] + 2)
    assert [len(kept) for kept in trace.stages[0].kept] == [tokens // 2] * 2


@pytest.mark.slow
@pytest.mark.usefixtures("without_fvcore")
@pytest.mark.parametrize("name", ["Qwen2.5-VL", "LLaVA-NeXT", "InternVL"])
def test_sweep_measures_a_saved_checkpoint(saved: Saved, photograph: Path, tmp_path: Path, capsys, name: str):
    line = ["sweep", "--model", saved(name), "--image", photograph, "--prompt", "What is this?", "--retention", "0.5"]
    short = ["--seconds", "0.1", "--processes", "1", "--asked", "1", "--new-tokens", "2", "--device", "cpu"]
    found = document(capsys, *line, *short, "--out", tmp_path)
    assert found["study"]["model"] == str(saved(name))
    assert [cell["status"] for cell in found["cells"]] == ["done"]


def test_a_dry_run_takes_the_pixels_of_its_command(saved: Saved, photograph: Path, capsys):
    line = ["sweep", "--model", saved("Qwen2.5-VL"), "--image", photograph, "--pixels", "64,9000", "--device", "cpu"]
    found = document(capsys, *line, "--retention", "0.5", "--dry-run")
    assert (found["study"]["pixels"], found["shape"]["visual_tokens"]) == ([64, 9000], 126)


@pytest.mark.parametrize(
    ("pixels", "grid"),
    [
        # 451 × 300 pixels shrink by √(135 300 / 9 000) = 3.877 to 116 × 77, and then to multiples of 8, downwards.
        ((64, 9_000), (9, 14)),
        # They grow by √(200 000 / 135 300) = 1.216 to 548.3 × 364.7, and then to multiples of 8, upwards.
        ((200_000, 400_000), (46, 69)),
    ],
)
@pytest.mark.parametrize(
    "name", fast_first(sorted(name for name, family in families.items() if family.takes_pixels), "Qwen2.5-VL")
)
def test_pixels_set_the_number_of_visual_tokens(saved: Saved, photograph: Path, name: str, pixels, grid):
    processor = load_with_pixels(str(saved(name)), pixels)
    inputs = ask(processor, [open_picture(photograph)], "What is this?")
    assert inputs["image_grid_thw"].tolist() == [[1, 2 * grid[0], 2 * grid[1]]]  # 2 × 2 patches are one token
    picture = processor.tokenizer.convert_tokens_to_ids(processor.image_token)
    assert int((inputs["input_ids"] == picture).sum()) == grid[0] * grid[1]


@pytest.mark.parametrize(
    ("name", "tiles"),
    [
        ("page.png", 2 + 1),  # 384 × 191: two tiles side by side, and the whole picture
        ("text.png", 3 + 1),  # 448 × 172 is nearer to 3 : 1 than to 2 : 1
        ("astronaut.png", 4 + 1),  # 512 × 512 fills more than half of 2 × 2 tiles of 32 × 32
    ],
)
def test_internvl_cuts_a_photograph_into_tiles_of_its_shape(saved: Saved, photograph: Path, name: str, tiles: int):
    processor = load_processor(str(saved("InternVL")))
    inputs = ask(processor, [open_picture(photograph.with_name(name))], "What is this?")
    assert len(inputs["pixel_values"]) == tiles
    picture = processor.tokenizer.convert_tokens_to_ids("<IMG_CONTEXT>")
    assert int((inputs["input_ids"] == picture).sum()) == 16 * tiles


def test_pixels_of_another_family_and_fewer_than_a_visual_token_has_are_refused(saved: Saved):
    with pytest.raises(StudyError, match=r"pixels = 64,9000: LLaVA-1.5 .*of Qwen2-VL, .*Qwen3-VL$"):
        load(Study(model=str(saved("LLaVA-1.5")), pixels=(64, 9_000)))
    with pytest.raises(StudyError, match="a visual token of this model has 8 × 8 pixels; the most must be at least 64"):
        load(Study(model=str(saved("Qwen3-VL")), pixels=(1, 63)))


@without_torchvision
@pytest.mark.parametrize("name", fast_first(READ_VIDEOS, "Qwen2.5-VL"))
def test_a_processor_that_needs_torchvision_for_videos_alone_loads_without_it(saved: Saved, name: str):
    directory = str(saved(name))
    with pytest.raises(ImportError, match=f"{FILES[name].video} requires the Torchvision library"):
        AutoProcessor.from_pretrained(directory)
    processor = load_processor(directory)
    assert isinstance(processor.video_processor, NoVideos if name in REFUSE_VIDEOS else FrameByFrame)
    assert processor.chat_template == FILES[name].template
    settings = json.loads((Path(directory) / "processor_config.json").read_text(encoding="utf-8"))
    assert {key: getattr(processor, key) for key in FILES[name].processor} == FILES[name].processor
    assert type(processor).__name__ == settings["processor_class"]


@without_torchvision
@pytest.mark.parametrize("name", fast_first(REFUSE_VIDEOS, "Qwen2.5-VL"))
def test_a_video_is_refused_by_name_in_one_line(saved: Saved, name: str):
    processor = load_processor(str(saved(name)))
    frames = [np.zeros((3, 16, 16), dtype=np.uint8)] * 2
    with pytest.raises(ValueError, match="a video needs torchvision, which is not installed: give pictures") as caught:
        processor(text=[processor.video_token], videos=[frames])
    assert "\n" not in str(caught.value)


@without_torchvision
def test_a_checkpoint_with_the_files_of_older_releases_loads_too(saved: Saved, tmp_path: Path):
    """Qwen2.5-VL as it is published: `preprocessor_config.json` and no `processor_config.json`."""
    directory = tmp_path / "old"
    shutil.copytree(saved("Qwen2.5-VL"), directory)
    settings = json.loads((directory / "processor_config.json").read_text(encoding="utf-8"))
    (directory / "processor_config.json").unlink()
    old = {**settings["image_processor"], "processor_class": settings["processor_class"]}
    (directory / "preprocessor_config.json").write_text(json.dumps(old), encoding="utf-8")
    with pytest.raises(ImportError, match="requires the Torchvision library"):
        AutoProcessor.from_pretrained(directory)
    old_processor, new_processor = (load_processor(str(place)) for place in (directory, saved("Qwen2.5-VL")))
    picture = Image.new("RGB", (40, 24), "red")
    inputs = [
        one(images=[picture], text=["<|image_pad|>"], return_tensors="pt") for one in (old_processor, new_processor)
    ]
    assert torch.equal(inputs[0]["pixel_values"], inputs[1]["pixel_values"])


BROKEN = """
from trio_profile.optional import set_broken_torchvision_aside, torchvision_fault
set_broken_torchvision_aside()
set_broken_torchvision_aside()  # warns once
from trio_profile.inputs.processors import load_processor
import sys
print(type(load_processor(sys.argv[1]).image_processor).__name__, torchvision_fault())
"""


@pytest.mark.slow
@without_torchvision
def test_a_torchvision_that_cannot_be_imported_counts_as_missing_and_is_named(saved: Saved, tmp_path: Path):
    broken = tmp_path / "torchvision"
    broken.mkdir()
    (broken / "__init__.py").write_text("raise RuntimeError('operator torchvision::nms does not exist')\n")
    paths = os.pathsep.join([str(tmp_path), *filter(None, sys.path)])
    done = subprocess.run(
        [sys.executable, "-c", BROKEN, str(saved("Qwen2.5-VL"))],
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "Qwen2VLImageProcessorPil operator torchvision::nms does not exist\n"
    assert done.stderr.count("warning: torchvision cannot be imported and is not used") == 1
