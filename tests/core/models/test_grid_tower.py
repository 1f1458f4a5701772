"""Towers that cannot be read: where their tokens lie on a picture, and the control that asks for nothing else."""

import copy

import pytest
import torch
from torch import Tensor

from tests.core import tiny, unknown
from tests.core.methods import towers
from tests.core.methods.test_downsample import plain
from trio_core import UnsupportedInput, UnsupportedModel, prune
from trio_core.methods.downsample import Downsample
from trio_core.models import adapter_for
from trio_core.models.grid_tower import Grid

GRIDS = {
    "fastvlm": ([Grid(4, 4)], [Grid(4, 4)] * 2),
    "gemma3": ([Grid(4, 4)], [Grid(4, 4)] * 2),
    "gemma4": ([Grid(2, 3)], [Grid(3, 5)]),
    "glm_4_6v": ([Grid(2, 3)], [Grid(3, 4), Grid(2, 3)]),
    "idefics3": ([Grid(4, 4)], [Grid(4, 4)] * 2),
    "internvl": ([Grid(4, 4)], [Grid(4, 4)] * 2),
    "molmo2": ([Grid(3, 3)], [Grid(3, 3), Grid(3, 6)]),
    "paligemma": ([Grid(4, 4)], [Grid(4, 4)] * 2),
    "qwen3_vl": ([Grid(2, 3)], [Grid(3, 4)]),
    "video_llava": ([Grid(4, 4)], [Grid(4, 4)]),
}
"""The grids of the small sample and of the large one."""
families = pytest.mark.parametrize("family", tiny.fast_first(GRIDS, "gemma3", "qwen3_vl", "molmo2"))


def look(family: str, one: dict[str, Tensor]):
    """The Encoder that a control reads."""
    model = tiny.model(family)
    tower = adapter_for(model).grid_tower()
    with tiny.attached(tower.listen()), torch.no_grad():
        model(**one, use_cache=False)
    rows = tiny.visual_rows(one)
    tower.take_entering(towers.entering(model, one)[None], [rows])
    return tower.collect([len(rows)])


@families
def test_each_token_has_its_place_in_its_grid(family):
    for size, grids in zip(("small", "large"), GRIDS[family], strict=True):
        one = tiny.without_videos(tiny.sample(family, size))
        encoder = look(family, one)
        rows, columns = (max(grid[axis] for grid in grids) for axis in (0, 1))
        assert encoder.grid == (rows, columns) and encoder.patches == rows * columns
        raster = [
            (number * rows + row) * columns + column
            for number, grid in enumerate(grids)
            for row in range(grid.rows)
            for column in range(grid.columns)
        ]
        assert encoder.places[0].tolist() == raster
        assert torch.equal(encoder.by_token(0, encoder.hidden), towers.embedded(tiny.model(family), one))
        with tiny.refused(UnsupportedModel, "only the order of its tokens is known"):
            _ = encoder.attention


@pytest.mark.parametrize("family", ["gemma3", "paligemma", "idefics3", "internvl"])
def test_a_grid_lies_on_the_picture_in_raster_order(family):
    """Without attention a token depends on its own pixels alone: each pixel moves the token of its place."""
    model = copy.deepcopy(tiny.model(family))
    for name, module in adapter_for(model).model.named_modules():
        if "vision" in name and name.endswith(("out_proj", "attention.projection_layer")):
            for weights in module.parameters():
                torch.nn.init.zeros_(weights)
    one = tiny.sample(family, "small")
    before, side = towers.embedded(model, one), one["pixel_values"].shape[-1] // 4
    for token in range(16):
        pixels = one["pixel_values"].clone()
        row, column = divmod(token, 4)
        pixels[..., row * side + 1, column * side + 1] += 3
        moved = (towers.embedded(model, {**one, "pixel_values": pixels}) - before).abs().amax(dim=1) > 1e-6
        assert moved.nonzero().flatten().tolist() == [token]


@families
def test_the_control_averages_what_enters_the_decoder(family):
    model, samples = tiny.model(family), tiny.pair(family)
    for b, one in enumerate(samples):
        encoder, visual = look(family, one), towers.embedded(model, one)
        method = Downsample(retention=0.4)
        with torch.no_grad(), towers.listening(model) as calls, prune(model, method) as trace:
            model(**one, use_cache=False)
        columns, tokens = encoder.grid[1], {}
        shares = towers.crop_budgets(crops := crops_of(encoder, visual, columns), trace.stages[0].tokens_after)
        for crop, share in zip(crops, shares, strict=True):
            if share:
                for patch, mean in plain(crop, crop.patches, share).items():
                    tokens[crop.numbers[patch]] = mean.float()
        assert trace.stages[0].kept[0].tolist() == sorted(tokens), b
        towers.check_entered(model, one, 0, dict(sorted(tokens.items())), calls[0][0][0][0])


def crops_of(encoder, visual: Tensor, columns: int) -> list[towers.Crop]:
    """The grids as the crops that the plain form of the control works on."""
    placed, crops = encoder.places[0].tolist(), []
    for crop in sorted({place // encoder.patches for place in placed}):
        numbers = {p % encoder.patches: n for n, p in enumerate(placed) if p // encoder.patches == crop}
        hidden = encoder.hidden[crop].double()
        crops.append(towers.Crop(hidden, hidden, hidden, hidden[:, 0], 1, numbers, columns))
    return crops


@pytest.mark.parametrize(("family", "grids"), [("qwen3_vl", [Grid(2, 2)] * 3), ("video_llava", [Grid(4, 4, 1)] * 3)])
def test_a_frame_of_a_video_is_a_grid(family, grids):
    encoder, places = look(family, tiny.videos(family)[0]), []
    for number, grid in enumerate(grids):
        places += [-1] * grid.before
        places += [number * encoder.patches + place for place in range(grid.rows * grid.columns)]
    assert encoder.places[0].tolist() == places


def test_several_answers_share_their_picture():
    model, one = tiny.model("gemma3"), tiny.sample("gemma3")
    with prune(model, "downsample", retention=0.5) as trace:
        tiny.generate(model, one, 2)
        alone = trace.stages[0].kept[0]
        tiny.generate(model, tiny.batch([one, one]), 2, num_beams=2)
    assert [kept.tolist() for kept in trace.stages[0].kept] == [alone.tolist()] * 4
    assert hasattr(model.base_model.get_image_features, "__self__"), "the stand-in is gone"


def test_what_has_no_grid_is_refused():
    with tiny.refused(UnsupportedModel, "Aria.* how its visual tokens lie on a picture is not known; choose"):
        adapter_for(unknown.aria()).grid_tower()
    tiled = tiny.variant("llava_next", vision_feature_layer=[-2, -1])
    with (
        tiny.refused(UnsupportedModel, "LLaVA-NeXT: how its visual tokens lie"),
        prune(tiled, "downsample", retention=0.5),
    ):
        pass
    both = tiny.sample("qwen3_vl")  # a picture and a video
    with tiny.refused(UnsupportedInput, "Qwen3-VL: 16 visual tokens .* form no grids that we know .* not both in one"):
        tiny.run(tiny.model("qwen3_vl"), both, "downsample", retention=0.5)
    model = tiny.model("gemma3")
    with tiny.refused(UnsupportedInput, "no picture went through"), prune(model, "downsample", retention=0.5):
        tiny.generate(model, tiny.sample("gemma3"), 2, use_cache=False)
    cls = tiny.variant("llava", vision_feature_select_strategy="full")
    one = tiny.sample("llava", "small")
    ids = torch.cat([one["input_ids"][:, :4], one["input_ids"][:, 3:]], dim=1)  # the CLS token too
    with tiny.refused(UnsupportedInput, "17 visual tokens in the prompt form no grids that we know"):
        tiny.run(cls, {**one, "input_ids": ids, "attention_mask": torch.ones_like(ids)}, "downsample", retention=0.5)
