"""The vision towers of the toys by the library's own run, and checks of the methods that look into them.

A plain form of a rule works on the crops of one picture. Which visual token is which patch is read from the features
that enter the decoder. How generation goes on is shown for every method in `tests/core/engine/test_hidden_keys.py`.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from tests.core import tiny
from tests.core.models.test_families import holds_in_order, listening
from trio_core.methods.method import Method
from trio_core.models import adapter_for
from trio_core.models.encoder import Encoder

WITH_CLS = ("llava", "llava_next")
FAMILIES = (*WITH_CLS, "llava_onevision", "qwen2_5_vl")
with_cls = pytest.mark.parametrize("family", WITH_CLS)
families = pytest.mark.parametrize("family", FAMILIES)


@dataclass(frozen=True)
class Crop:
    """One crop of a picture by the tower's own run, in float64. M patches.

    hidden: [M, D], the patches as the projector reads them. projected: [M, W], what enters the decoder.
    keys: [M, E], of the layer that made `hidden`, averaged over heads.
    attention: [M], what the CLS token pays to each patch there (without one: what each receives), summed over `heads`.
    numbers: patch → number of the visual token, for the patches that are visual tokens.
    columns: of the crop's grid.
    cls: [D], the CLS token beside `hidden`.
    last_attention: [M], what the CLS token pays in the last layer, all heads as one. last_keys: [M, D], its keys.
    """

    hidden: Tensor
    projected: Tensor
    keys: Tensor
    attention: Tensor
    heads: int
    numbers: dict[int, int]
    columns: int
    cls: Tensor | None = None
    last_attention: Tensor | None = None
    last_keys: Tensor | None = None

    @property
    def patches(self) -> list[int]:
        """The patches that are visual tokens, ascending."""
        return sorted(self.numbers)


# --- what a tower shows ----------------------------------------------------------------------------------------------


def look(model: PreTrainedModel, *samples: dict[str, Tensor]) -> Encoder:
    """What our own adapter shows of a batch."""
    tower = adapter_for(model).tower()
    with tiny.attached(tower.listen()), torch.no_grad():
        model(**tiny.batch(samples), use_cache=False)
        return tower.collect([len(tiny.visual_rows(one)) for one in samples])


@contextmanager
def outputs(modules: dict[str, nn.Module]) -> Iterator[dict[str, Tensor]]:
    """What each module makes for the first time while the context is open, by name."""
    made: dict[str, Tensor] = {}

    def note(name: str, _module: nn.Module, _args: object, output: Tensor) -> None:
        made.setdefault(name, output)

    with tiny.attached(module.register_forward_hook(partial(note, name)) for name, module in modules.items()):
        yield made


def projections(attention: nn.Module) -> dict[str, nn.Module]:
    """The modules that make the queries `q` and the keys `k` of a decoder layer, before rotary."""
    kind = "norm" if hasattr(attention, "q_norm") else "proj"
    return {name: attention.get_submodule(f"{name}_{kind}") for name in "qk"}


@torch.no_grad()
def entering(model: PreTrainedModel, one: dict[str, Tensor], layer: int = 0) -> Tensor:
    """[S, D] what enters a layer of the dense model, counted from 0."""
    with listening(model) as calls:
        model(**one, use_cache=False)
    return calls[0][layer][0][0].clone()


def check_entered(
    model: PreTrainedModel, one: dict[str, Tensor], layer: int, tokens: dict[int, Tensor], entered: Tensor
) -> None:
    """A layer received the text of a sample and its merged tokens, in order.

    tokens: number of each visual token that is left → the feature that stands there.
    entered: [S', D], what entered the layer; other rows are padding.
    """
    wanted, visual = entering(model, one, layer), tiny.visual_rows(one)
    kept = visual[[*tokens]]
    wanted[kept] = torch.stack([*tokens.values()]).to(wanted)
    every = torch.arange(len(wanted))
    left = wanted[~torch.isin(every, visual) | torch.isin(every, kept)]
    assert holds_in_order(entered, left)


def embedded(model: PreTrainedModel, one: dict[str, Tensor]) -> Tensor:
    """[V0, D] what enters the dense model's first layer at the visual tokens."""
    return entering(model, one)[tiny.visual_rows(one)]


def patch_behind(rows: Tensor, projected: Tensor) -> list[int]:
    """For each visual token, the patch that it is, as crop · M + patch, found by its features alone; −1 for none."""
    distance = torch.cdist(rows, projected.flatten(0, 1), compute_mode="donot_use_mm_for_euclid_dist")
    nearest = distance.min(dim=1)
    assert (distance < 1e-5).sum(dim=1).max() <= 1  # every patch its own
    return torch.where(nearest.values < 1e-5, nearest.indices, -1).tolist()


@torch.no_grad()
def tower_run(model: PreTrainedModel, one: dict[str, Tensor]) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
    """The own eager run of LLaVA's tower on a sample, and from the layer that the projector reads: [C, S, D] hidden
    states, [C, H, S, S] attention, its keys, and the last layer's queries and keys."""
    tower, pixels = model.get_submodule("model.vision_tower"), one.get("pixel_values", one.get("pixel_values_videos"))
    index = model.config.vision_feature_layer
    layers: Any = next(module for module in tower.modules() if isinstance(module, nn.ModuleList))
    read, last = (
        getattr(layer, "self_attn", getattr(layer, "attention", None))
        for layer in (layers[index if index < 0 else index - 1], layers[-1])
    )
    with outputs({"keys": read.k_proj, "last_query": last.q_proj, "last_keys": last.k_proj}) as heard:
        seen = tower(pixels.flatten(0, -4), output_hidden_states=True, output_attentions=True)
    heard = {name: output.double() for name, output in heard.items()}
    return seen.hidden_states[index], seen.attentions[index if index < 0 else index - 1], heard


@torch.no_grad()
def crops_of(model: PreTrainedModel, one: dict[str, Tensor]) -> list[Crop]:
    """The crops of a sample that have visual tokens. Qwen's tower has its own tests, so our adapter may show it."""
    if not hasattr(model.config, "vision_feature_layer"):
        encoder = look(model, one)
        rows, columns = encoder.grid
        placed, parts = encoder.places[0].tolist(), []
        for crop in sorted({place // (rows * columns) for place in placed}):
            hidden, weights = encoder.hidden[crop].double(), encoder.attention[crop].double()
            numbers = {p % (rows * columns): n for n, p in enumerate(placed) if p // (rows * columns) == crop}
            keys = encoder.keys[crop].double().mean(dim=1)
            parts.append(Crop(hidden, hidden, keys, weights.sum(dim=0), len(weights), numbers, columns))
        return parts
    hidden, weights, heard = tower_run(model, one)
    has_cls = model.config.vision_feature_select_strategy == "default"
    first = int(has_cls)
    attention = weights[:, :, 0, 1:] if has_cls else weights.mean(dim=2)
    projected = model.get_submodule("model.multi_modal_projector")(hidden[:, first:])
    maps = (heard["last_query"] @ heard["last_keys"].transpose(1, 2) / hidden.shape[-1] ** 0.5).softmax(dim=-1)
    heads, patches = attention.shape[1:]
    keys = heard["keys"][:, first:].unflatten(-1, (heads, -1)).mean(dim=2)
    numbers_of: dict[int, dict[int, int]] = {}
    for number, place in enumerate(patch_behind(embedded(model, one), projected)):
        if place >= 0:
            numbers_of.setdefault(place // patches, {})[place % patches] = number
    return [
        Crop(
            hidden[crop, first:].double(),
            projected[crop].double(),
            keys[crop],
            attention[crop].double().sum(dim=0),
            heads,
            numbers,
            int(patches**0.5),
            *((hidden[crop, 0].double(), maps[crop, 0, 1:], heard["last_keys"][crop, 1:]) if has_cls else ()),
        )
        for crop, numbers in numbers_of.items()
    ]


def crop_budgets(crops: Sequence[Crop], budget: int) -> list[int]:
    """How many tokens each crop keeps. The crops take one in turn while they have any."""
    shares = [0] * len(crops)
    while sum(shares) < budget:
        for crop, tokens in enumerate(crops):
            if shares[crop] < len(tokens.numbers) and sum(shares) < budget:
                shares[crop] += 1
    return shares


# --- samples ---------------------------------------------------------------------------------------------------------


@cache
def crops_of_sample(family: str, index: int) -> list[Crop]:
    """The crops of one of `tiny.pair`."""
    return crops_of(tiny.model(family), tiny.pair(family)[index])


def wide() -> dict[str, Tensor]:
    """LLaVA-NeXT's sample of two tiles side by side, their rows joined, of whose eight rows padding takes four."""
    generator = torch.Generator().manual_seed(3)
    ids = [5, 6, *[tiny.IMAGE] * (16 + 2 * (8 + 1)), 7, 8, 9]
    return {
        "input_ids": torch.tensor([ids]),
        "attention_mask": torch.ones(1, len(ids), dtype=torch.long),
        "pixel_values": torch.randn(1, 3, 3, 16, 16, generator=generator),
        "image_sizes": torch.tensor([[16, 64]]),
    }


def two_pictures() -> dict[str, Tensor]:
    """LLaVA-NeXT's sample with two pictures of different sizes and a word between them."""
    first, second = tiny.sample("llava_next", "small"), tiny.sample("llava_next", "large", seed=2)
    together = tiny.batch([first, second])
    ids = torch.cat([first["input_ids"], second["input_ids"]], dim=1)
    return {**together, "input_ids": ids, "attention_mask": torch.ones_like(ids)}


# --- methods that keep patches as they are ---------------------------------------------------------------------------

Choice = Callable[[list[Crop], int, dict[str, Tensor]], list[int]]
"""(the crops of a sample, the budget, the sample) → the numbers of the tokens that stay, in any order."""


def crop_by_crop(rule: Callable[[Crop, list[int], int], Sequence[int]]) -> Choice:
    """A choice that divides the budget among the crops. rule: (crop, its patches, budget) → which of these stay."""

    def choose(crops: list[Crop], budget: int, _one: object) -> list[int]:
        kept = []
        for crop, share in zip(crops, crop_budgets(crops, budget), strict=True):
            if share:
                kept += [crop.numbers[crop.patches[i]] for i in rule(crop, crop.patches, share)]
        return kept

    return choose


def check_selection(family: str, method: Method, choose: Choice) -> None:
    """In a batch padded at either side, the first stage keeps what `choose` says of each sample."""
    model, samples = tiny.model(family), tiny.pair(family)
    for side in ("left", "right"):
        trace = tiny.prefill(model, samples, method, side)
        for b, one in enumerate(samples):
            expected = choose(crops_of_sample(family, b), trace.schedules[b].budgets[0], one)
            assert trace.stages[0].layer == 0
            assert trace.stages[0].kept[b].tolist() == sorted(expected)


# --- methods that merge ----------------------------------------------------------------------------------------------

Rule = Callable[[Crop, list[int], int], dict[int, Tensor]]
"""(crop, its patches, budget) → patch → the feature [D] that stands there, before the projector."""


@torch.no_grad()
def expected_tokens(model: PreTrainedModel, one: dict[str, Tensor], budget: int, rule: Rule) -> dict[int, Tensor]:
    """What a sample's visual tokens become: number of the token → its projected feature."""
    crops, tokens = crops_of(model, one), {}
    project = getattr(model.model, "multi_modal_projector", lambda part: part)
    for crop, share in zip(crops, crop_budgets(crops, budget), strict=True):
        if share:
            for patch, feature in rule(crop, crop.patches, share).items():
                tokens[crop.numbers[patch]] = project(feature.float())
    assert len(tokens) == budget
    return dict(sorted(tokens.items()))


def check_merging(model: PreTrainedModel, samples: list[dict[str, Tensor]], method: Method, rule: Rule) -> None:
    """Each sample keeps the plain form's numbers, and receives its features in the first layer; text stays."""
    with listening(model) as calls:
        trace = tiny.prefill(model, samples, method)
    (stage,) = trace.stages
    for b, one in enumerate(samples):
        expected = expected_tokens(model, one, trace.schedules[b].budgets[0], rule)
        assert stage.kept[b].tolist() == list(expected)
        check_entered(model, one, 0, expected, calls[0][0][0][b])
