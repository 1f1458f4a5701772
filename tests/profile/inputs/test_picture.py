"""The study's picture: what is kept of it, and that each token lies where the grid says."""

import io
from base64 import b64decode
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image, ImageOps
from torch import Tensor
from transformers.models.clip.image_processing_pil_clip import CLIPImageProcessorPil
from transformers.models.llava_next.image_processing_pil_llava_next import LlavaNextImageProcessorPil
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

from tests.core.tiny import fast_first
from tests.profile.labelled import PHOTOGRAPHS, needs_labels, region
from trio_core.models import adapter_for, families, toy
from trio_core.models.adapter import Adapter
from trio_profile.inputs import picture
from trio_profile.inputs.models import load
from trio_profile.inputs.processors import load_processor
from trio_profile.inputs.questions import open_picture
from trio_profile.inputs.workload import ask, build
from trio_profile.records.schema import Study, TokenGrid

# --- where the tokens lie --------------------------------------------------------------------------------------------

TILED = LlavaNextImageProcessorPil(
    size={"shortest_edge": 16}, crop_size={"height": 16, "width": 16}, image_grid_pinpoints=toy.PINPOINTS
)
SQUARE = CLIPImageProcessorPil(size={"shortest_edge": 16}, crop_size={"height": 16, "width": 16})
MERGED = Qwen2VLImageProcessorPil(patch_size=4, merge_size=2, size={"shortest_edge": 64, "longest_edge": 4096})
CASES = [
    ("LLaVA-1.5", SQUARE, (16, 16), [(4, 4)]),
    ("LLaVA-NeXT", TILED, (24, 32), [(4, 4), (6, 8)]),  # four tiles, of which two rows are padding
    ("LLaVA-NeXT", TILED, (32, 16), [(4, 4), (8, 4)]),  # two tiles, one below the other
    ("Qwen2-VL", MERGED, (24, 40), [(3, 5)]),
    ("Qwen2.5-VL", MERGED, (24, 40), [(3, 5)]),
    ("Qwen3-VL", MERGED, (40, 16), [(5, 2)]),
]
"""Family, its processor at toy size, height and width of a picture, and rows and columns of its grids."""


def inputs_of(adapter: Adapter, processor: Any, pixels: np.ndarray, tokens: int) -> dict[str, Tensor]:
    """The inputs of the toy for a picture, with a text around it."""
    found = processor(images=[Image.fromarray(pixels)], return_tensors="pt")
    ids = torch.tensor([adapter.toy_prompt([1, 2, 3], [toy.IMAGE] * tokens, [4, 5, 6, 7])])
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids), **found, **adapter.toy_token_types(ids)}


@torch.no_grad()
def entering(adapter: Adapter, inputs: dict[str, Tensor]) -> Tensor:
    """[V, D], the visual tokens as they enter the decoder."""
    heard: list[Tensor] = []

    def catch(_module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        heard.append(args[0] if args else kwargs["hidden_states"])

    with adapter.layers[0].register_forward_pre_hook(catch, with_kwargs=True):
        adapter.model(**inputs)
    return heard[0][0][adapter.visual_tokens(inputs["input_ids"])[0]]


def on_grid(moved: Tensor, grid: TokenGrid) -> Tensor:
    """[rows, columns], how far each token of a grid moved. Newlines are left out."""
    own = moved[grid.first : grid.first + grid.tokens].view(grid.rows, grid.columns + grid.newline)
    return own[:, : grid.columns]


def tokens_of(grids: list[tuple[int, int]]) -> int:
    """The number of tokens. The second grid's rows end with newlines."""
    return sum(rows * (columns + (place > 0)) for place, (rows, columns) in enumerate(grids))


@pytest.mark.parametrize(("family", "processor", "size", "grids"), CASES, ids=[f"{c[0]} {c[2]}" for c in CASES])
def test_the_token_whose_features_change_lies_where_the_grid_says(family, processor, size, grids):
    adapter = adapter_for(families[family].toy())
    grey = np.full((*size, 3), 100, dtype=np.uint8)
    before = entering(adapter, first := inputs_of(adapter, processor, grey, tokens_of(grids)))
    layout = picture.lay_out(adapter, first)
    assert [(grid.rows, grid.columns) for grid in layout.grids] == grids
    rows, columns = grids[-1]
    high, wide = size[0] // rows, size[1] // columns
    for row, column in ((0, 0), (0, columns - 1), (rows - 1, 0), (rows - 2, columns - 2), (1, columns - 1)):
        bright = grey.copy()
        bright[row * high : (row + 1) * high, column * wide : (column + 1) * wide] = 255
        changed = inputs_of(adapter, processor, bright, tokens_of(grids))
        moved = (entering(adapter, changed) - before).norm(dim=-1)
        for grid in layout.grids:
            found = divmod(int(on_grid(moved, grid).argmax()), grid.columns)
            # The middle of the bright patch, as a share of the picture.
            middle = (row + 0.5) / rows, (column + 0.5) / columns
            assert found == (int(middle[0] * grid.rows), int(middle[1] * grid.columns)), (grid, row, column)
        shown = np.asarray(picture._image(picture.lay_out(adapter, changed).pixels[0], processor), dtype=int)
        assert np.abs(shown - bright).max() <= 1


@pytest.mark.slow
def test_the_tokens_of_a_clip_lie_on_their_frames():
    """A bright patch in one frame changes the token of its place most, and no token of another frame."""
    loaded = load(Study(model="pocket-video"))
    adapter, grey = adapter_for(loaded.model), np.full((192, 192, 3), 100, dtype=np.uint8)
    frames = [Image.fromarray(grey)] * 8
    before = ask(loaded.processor, [frames], "at the red square which digit ?")
    layout = picture.lay_out(adapter, before)
    assert [(grid.rows, grid.columns, grid.first) for grid in layout.grids] == [(12, 12, 144 * n) for n in range(8)]
    for number, row, column in ((0, 0, 0), (2, 11, 3), (7, 5, 11)):
        bright = grey.copy()
        bright[row * 16 : row * 16 + 16, column * 16 : column * 16 + 16] = 255
        changed = [*frames[:number], Image.fromarray(bright), *frames[number + 1 :]]
        after = ask(loaded.processor, [changed], "at the red square which digit ?")
        moved = (entering(adapter, after) - entering(adapter, before)).norm(dim=-1)[:-1].view(8, 12, 12)
        assert moved[number].argmax() == 12 * row + column
        assert not moved[[other for other in range(8) if other != number]].any()
        shown = picture._image(picture.lay_out(adapter, after).pixels[number], loaded.processor.image_processor)
        assert np.abs(np.asarray(shown, dtype=int) - bright).max() <= 1


def _middle(image: Image.Image, width: int, height: int) -> Image.Image:
    left, top = (image.width - width) // 2, (image.height - height) // 2
    return image.crop((left, top, left + width, top + height))


@needs_labels
@pytest.mark.parametrize(("photograph", "label"), [("2011_000003.jpg", "bottle"), ("2011_000025.jpg", "car")])
@pytest.mark.parametrize(
    ("family", "pixels"), [("LLaVA-1.5", None), ("LLaVA-NeXT", None), ("Qwen2.5-VL", (64, 20_000))]
)
def test_the_tokens_of_an_object_lie_on_its_polygon(saved, family, pixels, photograph, label):
    """The colours of the object are inverted. The tokens that change are those that its polygon covers."""
    loaded = load(Study(model=str(saved(family)), pixels=pixels))
    adapter, file = adapter_for(loaded.model), PHOTOGRAPHS / photograph
    whole, mask = open_picture(file), region(file, label)
    inverted = Image.composite(Image.eval(whole, lambda level: 255 - level), whole, mask)
    before, after = (ask(loaded.processor, [one], "What is this?") for one in (whole, inverted))
    moved = (entering(adapter, after) - entering(adapter, before)).norm(dim=-1)
    if family == "LLaVA-1.5":  # its processor cuts the middle square out
        mask = _middle(mask, mask.height, mask.height)
    for grid in picture.lay_out(adapter, before).grids:
        covered = np.asarray(mask.resize((grid.columns, grid.rows), Image.Resampling.BOX), dtype=float)
        own = on_grid(moved, grid).numpy()
        agreement, mirrored, upside_down = (
            np.corrcoef(one.ravel(), own.ravel())[0, 1] for one in (covered, covered[:, ::-1], covered[::-1])
        )
        assert agreement > 0.75 and agreement > 0.25 + max(mirrored, upside_down)


@pytest.mark.parametrize("name", ["motorcycle_left.png", "page.png", "horse.png", "retina.jpg"])
@pytest.mark.parametrize("family", fast_first(["LLaVA-1.5", "LLaVA-NeXT", "Qwen2.5-VL"], "LLaVA-NeXT"))
def test_what_is_drawn_is_the_photograph_and_nothing_else(saved, photograph, family, name):
    """Pictures of odd sizes, grey, transparent and large: the part that the model gets, in the photograph's colours."""
    processor, adapter = load_processor(str(saved(family))), adapter_for(families[family].toy())
    whole = open_picture(photograph.with_name(name))
    layout = picture.lay_out(adapter, ask(processor, [whole], "What is this?"))
    shown = picture._image(layout.pixels[0], processor.image_processor)
    if family == "LLaVA-1.5":
        whole = _middle(whole, min(whole.size), min(whole.size))
    expected = whole.resize(shown.size, Image.Resampling.BICUBIC)
    if family == "LLaVA-NeXT":  # the model cuts the padding of its tiles off in whole patches
        expected = _middle(ImageOps.pad(whole, (32, 32), Image.Resampling.BICUBIC), *shown.size)
    agreement, turned = (
        np.corrcoef(np.asarray(shown).ravel(), np.asarray(one).ravel())[0, 1]
        for one in (expected, expected.rotate(180))
    )
    assert agreement > max(0.8, turned)


@pytest.mark.parametrize("family", fast_first([name for name in families if name not in picture._LAYOUTS], "Gemma 3"))
def test_other_families_have_no_grid(family):
    adapter = families[family]
    assert picture.lay_out(adapter_for(adapter.toy(adapter.toy_attention[-1])), adapter.toy_sample("small")) is None


@pytest.mark.parametrize("family", fast_first(["LLaVA-1.5", "LLaVA-NeXT", "Qwen2-VL"], "Qwen2-VL"))
def test_several_pictures_in_a_sample_and_text_alone_have_no_grid(family):
    adapter = adapter_for(families[family].toy())
    one = families[family].toy_sample("small")
    assert picture.lay_out(adapter, one) is not None
    of_pictures = ("pixel_values", "image_sizes", "image_grid_thw")
    double = {name: torch.cat([value, value]) if name in of_pictures else value for name, value in one.items()}
    assert picture.lay_out(adapter, double) is None
    assert picture.lay_out(adapter, {"input_ids": one["input_ids"]}) is None


# --- what is kept ----------------------------------------------------------------------------------------------------


def decoded(address: str) -> Image.Image:
    return Image.open(io.BytesIO(b64decode(address.partition(",")[2])))


def test_a_photograph_is_kept_with_its_tokens_and_its_prompt(tiny_workload):
    found = picture.picture_of(tiny_workload)
    assert (found.visual_tokens, [grid.tokens for grid in found.grids]) == (36, [36])
    assert found.prompt == "USER: What is this? ASSISTANT:"
    assert decoded(found.image).size == (48, 48)


def test_a_drawn_picture_of_pocket_is_kept_with_its_question():
    workload = build(Study(fidelity_inputs=10))
    found = picture.picture_of(workload)
    assert decoded(found.image).size == (192, 192) and len(found.image) < 62_000
    assert (found.grids[0].rows, found.grids[0].columns, found.reason) == (24, 24, "")
    assert "?" in found.prompt and "<image>" not in found.prompt


def test_a_clip_of_pocket_video_is_kept_frame_by_frame():
    kept = picture.picture_of(build(Study(model="pocket-video")))
    assert len(kept.frames) == len(kept.grids) == 8 and kept.image == kept.frames[0]
    assert kept.grids[2].name == "frame 3 of 8" and len(set(kept.frames)) == 8


def test_a_private_picture_leaves_neither_pixels_nor_words(tiny_workload):
    found = picture.picture_of(tiny_workload, keep=False)
    assert (found.image, found.prompt, found.reason) == ("", "", picture.PRIVATE)
    assert found.grids[0].tokens == 36


def test_the_first_question_takes_the_place_of_noise():
    workload = build(Study(text_tokens=60, fidelity_inputs=10))
    found = picture.picture_of(workload)
    assert workload.random_pixels and found.image
    assert workload.questions[0].text in found.prompt
    kept = np.asarray(decoded(found.image).convert("RGB"), dtype=int)
    asked = [np.asarray(question.picture(), dtype=int) for question in workload.questions[:2]]
    first, second = (np.abs(kept - shown).mean() for shown in asked)
    assert first < 12 < 25 < second  # JPEG blurs the patterned ground
