"""Qwen's towers, which have no CLS token, against the library's own eager maps and a loop over patches; and VisionZip
in them, against a loop over the rule.

The order of the windows is undone here by the places that the loops walk, not by what `qwen.py` says of it.
"""

import math
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from transformers import PreTrainedModel
from transformers.models.qwen2_5_vl import modeling_qwen2_5_vl
from transformers.models.qwen2_vl import modeling_qwen2_vl
from transformers.vision_utils import get_vision_window_index

from tests.core import tiny
from tests.core.methods.test_overhead import declared_is_counted
from tests.core.methods.test_visionzip import check
from tests.core.methods.towers import embedded, look
from trio_core import UnsupportedInput, UnsupportedModel, prune
from trio_core.methods.visionzip import VisionZip
from trio_core.models import adapter_for
from trio_core.models.adapter import families
from trio_core.models.qwen_tower import window_order

FAMILIES = ("qwen2_vl", "qwen2_5_vl")
MODULES = {"qwen2_vl": modeling_qwen2_vl, "qwen2_5_vl": modeling_qwen2_5_vl}
SIDE, UNIT = 2, 4
"""Patches along a merged one, and in it."""
WINDOW = 2
"""Merged patches along a window of the toys."""
every_family = pytest.mark.parametrize("family", FAMILIES)
GRIDS = {
    "smaller than a window": [(2, 2)],
    "windows cut at both edges": [(10, 14)],
    "unequal": [(4, 6), (12, 4), (6, 10)],
}
every_grid = pytest.mark.parametrize("grids", GRIDS.values(), ids=GRIDS)


def pictures(*grids: tuple[int, int], seed: int = 0, after: int = 9, video: bool = False) -> dict[str, Tensor]:
    """One sample with a picture of each grid (patches along its sides), a word between; or a video of such frames."""
    generator = torch.Generator().manual_seed(seed)
    words = torch.randint(1, tiny.WORDS, (3 + len(grids) + after,), generator=generator).tolist()
    ids = words[:3]
    if video:
        (grid,) = set(grids)
        sizes, kind = [(len(grids), *grid)], "video"
        ids += [tiny.VISION_START, *[tiny.VIDEO] * (len(grids) * grid[0] * grid[1] // UNIT), tiny.VISION_END]
    else:
        sizes, kind = [(1, *grid) for grid in grids], "image"
        for number, (height, width) in enumerate(grids):
            ids += [tiny.VISION_START, *[tiny.IMAGE] * (height * width // UNIT), tiny.VISION_END, words[3 + number]]
    input_ids = torch.tensor([ids + words[-after:]])
    count = sum(math.prod(size) for size in sizes)
    return {
        "input_ids": input_ids,
        "attention_mask": torch.ones_like(input_ids),
        "mm_token_type_ids": (input_ids == tiny.IMAGE).int() + 2 * (input_ids == tiny.VIDEO).int(),
        "pixel_values_videos" if video else "pixel_values": torch.randn(count, 3 * 2 * 4 * 4, generator=generator),
        f"{kind}_grid_thw": torch.tensor(sizes),
    }


def walk(height: int, width: int, window: int | None) -> list[tuple[int, int]]:
    """(row, column) of a picture's merged patches, as a tower with windows walks them."""
    if window is None:
        return [(row, column) for row in range(height) for column in range(width)]
    return [
        (row, column)
        for top in range(0, height, window)
        for left in range(0, width, window)
        for row in range(top, min(top + window, height))
        for column in range(left, min(left + window, width))
    ]


def window_of(family: str) -> int | None:
    return WINDOW if family == "qwen2_5_vl" else None


def in_raster(family: str, values: Tensor, grid: tuple[int, int]) -> Tensor:
    """[…] by merged patch as the tower has one picture → the same row by row."""
    height, width = grid[0] // SIDE, grid[1] // SIDE
    placed = torch.empty_like(values)
    for index, (row, column) in enumerate(walk(height, width, window_of(family))):
        placed[row * width + column] = values[index]
    return placed


@torch.no_grad()
def recorded(model: PreTrainedModel, one: dict[str, Tensor], path: str) -> tuple[Tensor, Tensor]:
    """What a module of the tower took and gave while a sample went through."""
    calls: list[Any] = []
    module = model.get_submodule("model.visual").get_submodule(path)
    with tiny.attached([module.register_forward_hook(lambda _m, args, output: calls.append((args[0], output)))]):
        model(**one, use_cache=False)
    return calls[-1]


@torch.no_grad()
def library_maps(family: str, model: PreTrainedModel, one: dict[str, Tensor], monkeypatch) -> list[Tensor]:
    """[H, S, S] of each picture in the tower's last block: the library's eager function, listened to."""
    maps: list[Tensor] = []
    eager = MODULES[family].eager_attention_forward

    def listening_eager(*args: Any, **kwargs: Any) -> Any:
        output = eager(*args, **kwargs)
        maps.append(output[1][0])
        return output

    with monkeypatch.context() as patch:
        patch.setattr(MODULES[family], "eager_attention_forward", listening_eager)
        model.get_submodule("model.visual")(one["pixel_values"], grid_thw=one["image_grid_thw"])
    return maps[-len(one["image_grid_thw"]) :]


def toy_in(family: str, dtype: torch.dtype) -> PreTrainedModel:
    return tiny.model(family) if dtype == torch.float32 else families[tiny.NAMES[family]].toy("sdpa", seed=3).to(dtype)


# --- the tower -------------------------------------------------------------------------------------------------------


@every_grid
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@every_family
def test_attention_equals_the_column_means_of_the_librarys_own_map(family, dtype, grids, monkeypatch):
    """Column means, means over each merged patch, window order undone; at least float32 whatever the tower's type."""
    model, one = toy_in(family, dtype), pictures(*grids)
    encoder = look(model, one)
    assert encoder.attention.dtype == torch.float32
    places = encoder.places[0].split([height * width // UNIT for height, width in grids])
    for grid, place, weights in zip(grids, places, library_maps(family, model, one, monkeypatch), strict=True):
        expected = weights.float().mean(dim=1).unflatten(1, (-1, UNIT)).mean(dim=-1)  # [H, merged]
        expected = in_raster(family, expected.T, grid)
        ours = encoder.attention.transpose(1, 2).flatten(0, 1)[place]
        assert torch.allclose(ours, expected, rtol=1e-5 if dtype == torch.float32 else 1e-2)
        assert torch.allclose(ours.sum(dim=0), torch.tensor(1 / UNIT), rtol=1e-5)  # all rows' weights, shared out


@every_grid
@every_family
def test_hidden_states_in_raster_order_equal_the_decoders_input(family, grids):
    model, one = tiny.model(family), pictures(*grids)
    encoder = look(model, one)
    assert torch.equal(encoder.by_token(0, encoder.hidden), embedded(model, one))
    assert torch.equal(encoder.project(encoder.hidden), encoder.hidden)
    assert encoder.cls is None and encoder.last is None
    rows, columns = max(h for h, _ in grids) // SIDE, max(w for _, w in grids) // SIDE
    assert encoder.grid == (rows, columns)
    wanted = [
        (crop * rows + row) * columns + column
        for crop, (height, width) in enumerate(grids)
        for row in range(height // SIDE)
        for column in range(width // SIDE)
    ]
    assert encoder.places[0].tolist() == wanted
    counts = [height * width // UNIT for height, width in grids]
    assert [(crop, len(tokens)) for crop, tokens in encoder.crops(0)] == list(enumerate(counts))


def test_the_tower_is_read_at_its_last_block_over_whole_pictures(monkeypatch):
    """Which need not be the tower's last; the features are the tower's output all the same."""
    model = tiny.variant("qwen2_5_vl", "sdpa", 1, vision={"depth": 4, "fullatt_block_indexes": [0, 2]})
    one = pictures((6, 8))
    _, qkv = recorded(model, one, "blocks.2.attn.qkv")
    key = qkv.unflatten(-1, (3, 2, 16))[:, 1].unflatten(0, (-1, UNIT)).mean(dim=1)
    encoder = look(model, one)
    assert torch.allclose(encoder.keys[0], in_raster("qwen2_5_vl", key, (6, 8)), rtol=1e-5)
    windowed = tiny.variant("qwen2_5_vl", "sdpa", 1, vision={"depth": 4, "fullatt_block_indexes": []})
    with tiny.refused(UnsupportedModel, r"Qwen2.5-VL with fullatt_block_indexes \[\]: .* need a block"):
        adapter_for(windowed).tower()


@given(height=st.integers(1, 9), width=st.integers(1, 9), window=st.integers(1, 4))
def test_window_order_equals_the_librarys_index(height, width, window):
    index, _ = get_vision_window_index(torch.tensor([[1, 2 * height, 2 * width]]), 2, window * 8, 4)
    order = window_order(height, width, window)
    assert order.tolist() == index.tolist()
    assert order.tolist() == [row * width + column for row, column in walk(height, width, window)]
    assert window_order(height, width, None).tolist() == list(range(height * width))


# --- VisionZip without a CLS token -----------------------------------------------------------------------------------


@every_family
def test_unequal_pictures_in_a_padded_batch_and_large_ones(family):
    """Two of them in one sample. The cost is declared for the tower's own attention."""
    samples = [pictures((4, 6)), pictures((6, 10), (4, 4), seed=1), pictures((10, 6), seed=2, after=12)]
    check(tiny.model(family), samples, retention=0.2, contextual_share=0.6)
    for budget, share in ((40, 0.0), (200, 0.9)):
        method = VisionZip(budgets=(budget,), layers=(0,), contextual_share=share)
        declared_is_counted(family, pictures((40, 36)), method)


@every_family
def test_a_video_is_pruned_frame_by_frame(family):
    """And with another picture in the batch it is refused, since the tower runs once for each kind."""
    model, film = tiny.model(family), pictures((6, 8), (6, 8), (6, 8), video=True)
    with torch.no_grad(), prune(model, VisionZip(budgets=(12,), layers=(0,))) as trace:
        model(**film)
        assert [int(((kept := trace.stages[0].kept[0]) // 12 == frame).sum()) for frame in range(3)] == [4, 4, 4]
        assert len(kept) == 12
        with tiny.refused(UnsupportedInput, r"36 tokens from the latest run .*, 42 visual tokens"):
            model(**tiny.batch([pictures((4, 6)), film]))
        without = {name: value for name, value in film.items() if "video" not in name}
        with pytest.raises(UnsupportedInput, match="pass pixel_values with the prompt"):
            model(**without)
