"""Qwen's towers on a part of their patches, against the whole tower whose attention hides the dropped ones.

The oracle changes nothing but the library's eager attention: no patch sees a dropped one. Then a method that keeps
the same tokens, without reading pixels, must give the same logits.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor
from transformers.models.qwen2_5_vl import modeling_qwen2_5_vl
from transformers.models.qwen2_vl import modeling_qwen2_vl
from transformers.models.qwen3_vl import modeling_qwen3_vl

from tests.core import tiny
from tests.core.models.test_families import CLOSE, apart
from tests.core.models.test_qwen_tower import SIDE, UNIT, pictures, walk, window_of
from trio_core import TrioError, UnsupportedInput, UnsupportedModel, prune
from trio_core.methods import find
from trio_core.methods.method import Method, Reference, Stage
from trio_core.methods.pixelprune import PixelPrune
from trio_core.methods.view import Selection, View
from trio_core.models import adapter_for
from trio_core.models.encoder import Choice
from trio_core.models.qwen_tower import ThinTower
from trio_core.trace import Trace

MODULES = {"qwen2_vl": modeling_qwen2_vl, "qwen2_5_vl": modeling_qwen2_5_vl, "qwen3_vl": modeling_qwen3_vl}
every_family = pytest.mark.parametrize("family", MODULES)
GRIDS = [(6, 10), (4, 4)]
"""Patches along the sides of two pictures. The window of Qwen2.5-VL's toy is cut at an edge of the first one."""
METHOD = PixelPrune(budgets=(7,), layers=(0,))


@dataclass(frozen=True, kw_only=True)
class Given(Method):
    """Keep the tokens given, for each sample."""

    given: tuple[Tensor, ...]
    stage: ClassVar[Stage] = Stage.ENCODER
    reference: ClassVar[Reference] = Reference(title="none")

    def select(self, view: View) -> Selection:  # noqa: ARG002
        return Selection(self.given)


def samples() -> list[dict[str, Tensor]]:
    """Two pictures in one sample, and a smaller one in the other."""
    return [pictures(*GRIDS, after=7), pictures((4, 6), seed=2)]


@contextmanager
def hiding(family: str, grids: Sequence[tuple[int, int]], kept: Tensor, monkeypatch) -> Iterator[None]:
    """In the tower no patch sees one of a token that is not kept. kept: indices of tokens in raster order."""
    hidden, start = [], 0
    for height, width in grids:
        rows, columns = height // SIDE, width // SIDE
        raster = [start + row * columns + column for row, column in walk(rows, columns, window_of(family))]
        hidden += [token not in kept for token in raster for _ in range(UNIT)]
        start += rows * columns
    patches, place = torch.tensor(hidden), 0
    eager = MODULES[family].eager_attention_forward

    def masked(module: Any, query: Tensor, key: Tensor, value: Tensor, **options: Any) -> Any:
        nonlocal place
        part = patches[place : place + key.shape[2]]
        place = (place + len(part)) % len(patches)
        return eager(module, query, key, value, **{**options, "attention_mask": -1e9 * part[None, None, None].float()})

    with monkeypatch.context() as patch:
        patch.setattr(MODULES[family], "eager_attention_forward", masked)
        yield


def same_as_hidden(family: str, together: list[dict[str, Tensor]], trace: Trace, logits: Tensor, monkeypatch) -> None:
    """The logits of a pruned batch, padded on the left, are those of the oracle."""
    (stage,) = trace.stages
    counts = [len(tiny.visual_rows(one)) for one in together]
    starts = [sum(counts[:place]) for place in range(len(counts))]
    grids = [(height, width) for one in together for _, height, width in one["image_grid_thw"].tolist()]
    kept = torch.cat([start + own for start, own in zip(starts, stage.kept, strict=True)])
    given = Given(budgets=METHOD.budgets, layers=(0,), given=stage.kept)
    with hiding(family, grids, kept, monkeypatch):
        expected, _ = tiny.run(tiny.model(family), tiny.batch(together), given)
    last = trace.places[0][-1]
    assert apart(logits[:, last], expected[:, last]) < CLOSE


@every_family
def test_the_kept_patches_are_as_if_the_others_were_hidden(family, monkeypatch):
    """Two pictures in a sample, beside another sample. Qwen2.5-VL has empty windows, and Qwen3-VL has DeepStack."""
    together = samples()
    logits, trace = tiny.run(tiny.model(family), tiny.batch(together), METHOD)
    assert [len(kept) for kept in trace.stages[0].kept] == [7, 6]
    same_as_hidden(family, together, trace, logits, monkeypatch)


@every_family
def test_the_tower_runs_on_the_kept_patches_only(family):
    model, one, seen = tiny.model(family), pictures(*GRIDS), []
    blocks = list(model.get_submodule("model.visual.blocks").children())
    hooks = [block.register_forward_hook(lambda _m, _a, output: seen.append(len(output))) for block in blocks]
    with tiny.attached(hooks):
        tiny.run(model, one, METHOD)
        assert set(seen) == {7 * UNIT} and len(seen) == len(blocks)
        tiny.run(model, one, "grid", budgets=(7,), layers=(1,))
    assert seen[-1] == sum(height * width for height, width in GRIDS)  # and nothing stays behind


@every_family
def test_all_tokens_kept_is_the_dense_model_to_the_last_bit(family):
    model, one = tiny.model(family), pictures(*GRIDS)
    with torch.no_grad():
        dense = model(**one, use_cache=False).logits
    assert torch.equal(tiny.run(model, one, "pixelprune", retention=1.0)[0], dense)


@every_family
def test_generation_chooses_as_a_prefill_does(family):
    """Where generate() runs the tower itself before the forward, and repeats the samples behind it for beams."""
    model, together = tiny.model(family), tiny.batch(samples())
    logits, prefill = tiny.run(model, together, METHOD)
    for beams in (1, 2):
        with torch.no_grad(), prune(model, METHOD) as trace:
            written = tiny.generate(model, together, 3, num_beams=beams)
        assert [k.tolist() for k in trace.stages[0].kept] == [
            k.tolist() for k in prefill.stages[0].kept for _ in range(beams)
        ]
        assert apart(written.logits[0][::beams], logits[:, -1]) < CLOSE


def test_a_method_inside_the_decoder_goes_on_with_what_is_left():
    _, alone = tiny.run(tiny.model("qwen2_5_vl"), pictures(*GRIDS), METHOD)
    combined = find("pixelprune+fastv")(budgets=(7, 3), layers=(0, 2))
    _, both = tiny.run(tiny.model("qwen2_5_vl"), pictures(*GRIDS), combined)
    assert torch.equal(both.stages[0].kept[0], alone.stages[0].kept[0])
    assert both.stages[1].tokens_after == 3


def test_a_prompt_by_position_and_small_pictures_and_one_token():
    """`generate` knows the prompt by its first argument. A picture may be one token, and a budget too."""
    model: Any = tiny.model("qwen2_5_vl")
    small = tiny.batch([pictures((2, 2), (4, 6)), pictures((2, 2), (2, 2), seed=3)])
    one = PixelPrune(budgets=(1,), layers=(0,))
    _, prefill = tiny.run(model, small, one)
    assert [len(kept) for kept in prefill.stages[0].kept] == [1, 1]
    ids = small.pop("input_ids")
    with torch.inference_mode(), prune(model, one) as trace:
        model.generate(ids, **small, max_new_tokens=1, do_sample=False)
    assert list(map(Tensor.tolist, trace.stages[0].kept)) == list(map(Tensor.tolist, prefill.stages[0].kept))


def test_a_flash_kernel_is_told_the_longest_sequence_that_is_left():
    """It gets `max_seqlen` with the sequences' ends. 7 of 19 tokens stay, in two pictures."""
    model, one = tiny.model("qwen2_vl"), pictures(*GRIDS)
    tower, seen = adapter_for(model).thin_tower(METHOD.keep_pixels), []
    assert isinstance(tower, ThinTower)
    block = model.get_submodule("model.visual.blocks.0")

    def hear(_block: Any, _args: Any, kwargs: dict[str, Any]) -> None:
        seen.append((kwargs["cu_seqlens"].tolist(), kwargs["max_seqlen"]))

    def tell(_block: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        return args, {**kwargs, "max_seqlen": 60}

    telling = block.register_forward_pre_hook(tell, with_kwargs=True)
    hooks = [telling, *tower.listen(), block.register_forward_pre_hook(hear, with_kwargs=True)]
    with torch.no_grad(), tiny.attached(hooks):
        tower.expect(((19, 7),))
        model.get_submodule("model.visual")(one["pixel_values"], grid_thw=one["image_grid_thw"])
    (choice,) = tower.collect([19])
    first = int((choice.kept < 15).sum())
    assert seen == [([0, first * UNIT, 7 * UNIT], max(first, 7 - first) * UNIT)]


def test_a_generate_that_fails_leaves_the_tower_whole():
    model, one = tiny.model("qwen2_vl"), pictures(*GRIDS)
    with torch.no_grad(), prune(model, METHOD):
        with pytest.raises(RuntimeError, match="negative dimension"):
            tiny.generate(model, one, 2, num_beams=-3)
        with tiny.interrupted(model.get_submodule("model.visual.merger")):
            tiny.generate(model, one, 2)
        whole = model.model.get_image_features(one["pixel_values"], one["image_grid_thw"]).pooler_output
        model(**one)
    assert all((part != 0).any(dim=1).all() for part in whole)


def test_a_prompt_whose_pictures_the_tower_did_not_see_is_refused():
    model, one = tiny.model("qwen2_vl"), pictures(*GRIDS)
    without = {name: value for name, value in one.items() if name not in ("pixel_values", "image_grid_thw")}
    other = one | {name: pictures((4, 4))[name] for name in ("pixel_values", "image_grid_thw")}
    with prune(model, METHOD), torch.no_grad():
        for inputs, error in ((without, "no picture went through"), (other, r"pictures of \[4\] .* have \[19\]")):
            with tiny.refused(UnsupportedInput, error):
                model(**inputs)
        with tiny.refused(UnsupportedInput, "let generate.. use a cache"):
            tiny.generate(model, one, 2, use_cache=False)
        with tiny.refused(UnsupportedInput, "sample 0 of the batch has a video, and method 'pixelprune' is for pict"):
            model(**pictures((4, 4), (4, 4), video=True))


@pytest.mark.parametrize("kept", [[], [0, 1], [2, 1, 0, 3, 4, 5, 6], [1, 2, 3, 4, 5, 6, 19], [-1, 1, 2, 3, 4, 5, 6]])
def test_a_choice_that_misses_its_contract_is_refused(kept, monkeypatch):
    choice = Choice(torch.tensor(kept, dtype=torch.long), torch.zeros(19))
    monkeypatch.setattr(PixelPrune, "keep_pixels", lambda _self, _pictures, _budget: choice)
    with tiny.refused(TrioError, "keep_pixels chose .* expected are 7 of 19 tokens, ascending"):
        tiny.run(tiny.model("qwen2_vl"), pictures(*GRIDS), METHOD)


def test_a_tower_that_cannot_be_thinned_out_is_refused():
    with tiny.refused(UnsupportedModel, "LLaVA-1.5: its vision tower cannot run on a part .* Qwen2-VL, Qwen2.5-VL and"):
        tiny.run(tiny.model("llava"), tiny.sample("llava"), METHOD)
