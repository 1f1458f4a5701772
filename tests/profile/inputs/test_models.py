from pathlib import Path

import pytest
import torch

from tests.core.tiny import fast_first
from tests.profile.family_checkpoints import Saved
from trio_profile.errors import StudyError
from trio_profile.inputs.builtin import BUILTIN
from trio_profile.inputs.models import load, without_weights
from trio_profile.records.schema import Study

without_cuda = pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has CUDA")


def test_pocket_is_shipped_as_any_checkpoint_and_small():
    """Loaded by the library alone, as anyone would; at most 20 MB."""
    from transformers import AutoModelForImageTextToText, AutoProcessor

    directory = BUILTIN["pocket"].checkpoint()
    assert directory is not None
    assert sum(file.stat().st_size for file in directory.iterdir()) < 20_000_000
    model = AutoModelForImageTextToText.from_pretrained(directory, dtype=torch.float32)
    assert AutoProcessor.from_pretrained(directory).tokenizer.vocab_size == model.config.text_config.vocab_size
    ours = load(Study()).model.state_dict()
    assert all(torch.equal(value, ours[name]) for name, value in model.state_dict().items())


@pytest.mark.parametrize(
    "name",
    fast_first(sorted(name for name in BUILTIN if "next" not in name), "pocket", "llava-1.5-7b", "qwen2.5-vl-7b"),
)
def test_declared_visual_tokens_are_what_the_tower_makes(name: str):
    """On the meta device where that runs; by the library's own arithmetic where it asks for values."""
    builtin = BUILTIN[name]
    model = without_weights(builtin)
    picture = builtin.picture(1, torch.Generator().manual_seed(0))
    if name.startswith("qwen"):
        assert int(picture["image_grid_thw"].prod()) // 4 == builtin.visual_tokens
        assert len(picture["pixel_values"]) == int(picture["image_grid_thw"].prod())
    elif "pixel_values_videos" in picture:
        features = model.get_video_features(**{name: pixels.to("meta") for name, pixels in picture.items()})
        assert features.pooler_output.shape[:2] == (1, builtin.visual_tokens)
    else:
        features = model.get_image_features(pixel_values=picture["pixel_values"].to("meta")).pooler_output
        assert sum(len(feature) for feature in features) == builtin.visual_tokens


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("llava-1.5-7b", 7_063_427_072),
        ("llava-next-7b", 7_063_431_168),
        ("llava-onevision-7b", 8_030_348_832),
        ("qwen2.5-vl-7b", 8_292_166_656),
    ],
)
def test_built_in_models_have_the_sizes_of_their_originals(name: str, parameters: int):
    """As llava-1.5-7b-hf, llava-v1.6-vicuna-7b-hf, llava-onevision-qwen2-7b-ov-hf and Qwen2.5-VL-7B-Instruct."""
    assert sum(p.numel() for p in without_weights(BUILTIN[name]).parameters()) == parameters


@pytest.mark.parametrize(
    ("name", "size"),
    [("llava-next-7b", (672, 672)), ("llava-next-34b", (672, 672)), ("llava-next-7b-photo", (448, 640))],
)
def test_llava_next_pads_its_picture_as_the_library_counts_it(name: str, size: tuple[int, int]):
    from transformers import LlavaNextProcessor

    processor = LlavaNextProcessor.__new__(LlavaNextProcessor)
    processor.patch_size = 14
    processor.vision_feature_select_strategy = "default"
    processor.num_additional_image_tokens = 1
    config = BUILTIN[name].config()
    processor.image_processor = type("P", (), {"image_grid_pinpoints": config.image_grid_pinpoints})()
    # The count includes the class token, which the processor then takes off.
    assert processor._get_number_of_features(*size, 336, 336) - 1 == BUILTIN[name].visual_tokens
    picture = BUILTIN[name].picture(2, torch.Generator())
    assert picture["image_sizes"].tolist() == [list(size)] * 2
    assert picture["pixel_values"].shape == (2, 5, 3, 336, 336)


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"model": "llava-9"}, "unknown model 'llava-9': built in are llava-1.5-7b"),
        ({"device": "tpu9"}, "device 'tpu9' is unknown to torch"),
        ({"device": "meta"}, "device 'meta' cannot be timed"),
        ({"attention": "magic"}, "attention 'magic' is unknown to transformers; choose eager, "),
        ({"model": "pocket-deep", "attention": "flash_attention_2"}, "'flash_attention_2' cannot be used here"),
        ({"model": "pocket", "attention": "flash_attention_2"}, "'flash_attention_2' cannot be used here"),
        ({"pixels": (64, 6400)}, "pixels = 64,6400: model 'pocket' is built in and its pictures have one size"),
        ({"model": str(Path(__file__).parent)}, "cannot be loaded: "),
        pytest.param({"device": "cuda"}, "this machine has 0 CUDA devices; choose --device cpu", marks=without_cuda),
    ],
)
def test_what_cannot_be_loaded_is_refused_in_one_line(fields, says):
    with pytest.raises(StudyError) as caught:
        load(Study(**fields))
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_kernel_that_the_model_lacks_names_one_that_it_has(saved: Saved):
    with pytest.raises(StudyError, match=r"ConvNextModel does not support; choose --attention eager$"):
        load(Study(model=str(saved("FastVLM"))))


def test_a_model_that_does_not_fit_is_refused_before_it_is_built(monkeypatch):
    monkeypatch.setattr("trio_profile.inputs.models._free_host_memory", lambda: 2**30)
    with pytest.raises(StudyError, match=r"needs 26\.31 GiB for its weights in float32, and cpu has 1 GiB free"):
        load(Study(model="llava-1.5-7b"))
