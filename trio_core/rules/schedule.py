"""From a retention to budgets: how many visual tokens each decoder layer sees.

*Retention* is the share of the visual tokens, averaged over the decoder's layers. The unpruned first layers count.
A stage at layer l means: layers 1 … l run on all current tokens, and the layers after l run on the kept ones. Pure
Python: nothing here imports torch.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from math import ceil
from typing import Literal

from trio_core.errors import OptionError, RetentionError
from trio_core.rules.budgets import integer_budgets

Layers = tuple[int, ...]
"""Pruning layers, 1-based and ascending. 0 is the place before the decoder."""

Proportion = Sequence[int | float]
"""The proportion of several budgets: positive numbers, none larger than the one before."""

BudgetRule = Literal["average", "after-prune", "final"]
"""A retention is a share of all layers, of the tokens after the first stage, or of the tokens in the last layer."""

PROPORTION = (92, 54, 22)
"""TRIO's budgets for LLaVA at an average of 64 tokens (ocy1/TRIO at ec85d99). Its list for 128 is 218, 128, 54."""

DEFAULT_LAYERS: dict[int, Layers] = {32: (1, 10, 15), 28: (1, 8, 14)}
"""Pruning layers by depth of the decoder, as the TRIO paper sets them for LLaVA (32) and Qwen2.5-VL (28)."""


def default_layers(num_layers: int, of_32: Layers = (1, 10, 15)) -> Layers:
    """A paper's pruning layers, scaled to a decoder of `num_layers` layers.

    num_layers: depth of the decoder.
    of_32: the paper's layers in a decoder of 32 layers. The default is TRIO's, which also names layers for a depth of
        28 (`DEFAULT_LAYERS`).

    Raises OptionError for a decoder of fewer than two layers.
    """
    check_depth(num_layers)
    if of_32 == DEFAULT_LAYERS[32] and num_layers in DEFAULT_LAYERS:
        return DEFAULT_LAYERS[num_layers]
    layers: list[int] = []
    for layer in of_32:
        scaled = max(round(layer * num_layers / 32), layers[-1] + 1 if layers else 1)
        if scaled < num_layers:
            layers.append(scaled)
    return tuple(layers)


@dataclass(frozen=True)
class Schedule:
    """The stages of one method on one sample: after layer `layers[i]`, `budgets[i]` visual tokens are left.

    layers: the pruning layers, 1-based and ascending. Methods of the encoder stage act at 0, before the decoder.
    budgets: tokens kept at each stage, never growing.
    visual_tokens: V0, how many visual tokens enter the decoder.
    num_layers: L, depth of the decoder.

    Raises OptionError for layers or budgets that do not fit.
    """

    layers: Layers
    budgets: tuple[int, ...]
    visual_tokens: int
    num_layers: int

    def __post_init__(self) -> None:
        check_layers(self.layers, self.num_layers)
        _check_visual_tokens(self.visual_tokens)
        if len(self.budgets) != len(self.layers):
            raise OptionError(
                f"budgets {self.budgets} and layers {self.layers} differ in length: give one budget a layer"
            )
        ladder = (self.visual_tokens, *self.budgets)
        if any(later > earlier for earlier, later in pairwise(ladder)) or ladder[-1] < 0:
            raise OptionError(
                f"budgets {self.budgets} of {self.visual_tokens} tokens: each must lie between 0 and the one before"
            )

    @classmethod
    def average(
        cls,
        *,
        retention: float,
        visual_tokens: int,
        num_layers: int = 32,
        layers: Sequence[int] | None = None,
        proportion: Proportion = PROPORTION,
    ) -> "Schedule":
        """The schedule whose layer average is `retention`.

        The tokens summed over the layers are round(num_layers · retention · visual_tokens), exactly where integers
        allow and otherwise as near as they do. `layer_average` tells what was reached.

        retention: share of the visual tokens, averaged over the layers, in (0, 1].
        visual_tokens: V0, how many visual tokens enter the decoder.
        num_layers: L, depth of the decoder.
        layers: the pruning layers. None: TRIO's.
        proportion: the budgets stand in this proportion, where neither 1 nor V0 limits them. With another number of
            stages it is interpolated.

        Raises RetentionError for a retention outside (0, 1] or below what the unpruned first layers already cost, and
        OptionError for bad layers or a bad proportion.
        """
        places, profile = _stages(retention, visual_tokens, num_layers, layers, proportion)
        runs = [later - earlier for earlier, later in pairwise((*places, num_layers))]
        unpruned = places[0] * visual_tokens
        target = round(num_layers * retention * visual_tokens)
        lowest = unpruned + sum(runs)
        if target < lowest:
            raise RetentionError(
                f"retention {retention:.4g} cannot be reached: with stages after layers {places} of {num_layers}, "
                f"{visual_tokens} tokens and one kept at the least, the lowest possible is "
                f"{ceil(1e4 * lowest / (num_layers * visual_tokens)) / 1e4:.4f}"
            )
        budgets = integer_budgets(target - unpruned, runs, profile, visual_tokens)
        return cls(places, budgets, visual_tokens, num_layers)

    @classmethod
    def keeping(
        cls,
        *,
        retention: float,
        visual_tokens: int,
        num_layers: int = 32,
        layers: Sequence[int] | None = None,
        proportion: Proportion = PROPORTION,
        stage: int = 0,
    ) -> "Schedule":
        """The schedule whose budget at one stage is round(retention · visual_tokens). It reaches any retention.

        retention: share of the visual tokens that this stage keeps, in (0, 1].
        stage: index of the stage in `layers`.
        visual_tokens, num_layers, layers, proportion: as in `average`.

        Raises RetentionError for a retention outside (0, 1], OptionError for bad layers or a bad proportion.
        """
        places, profile = _stages(retention, visual_tokens, num_layers, layers, proportion)
        fixed = max(1, round(retention * visual_tokens))
        budgets = [min(visual_tokens, max(1, round(fixed * share / profile[stage]))) for share in profile]
        return cls(places, tuple(budgets), visual_tokens, num_layers)

    @property
    def tokens_by_layer(self) -> tuple[int, ...]:
        """[L], how many visual tokens each layer runs on: V0, V1, … in F_inf of the TRIO paper (Eq. 12)."""
        tokens = (self.visual_tokens,) * self.layers[0]
        for (layer, later), kept in zip(pairwise((*self.layers, self.num_layers)), self.budgets, strict=True):
            tokens += (kept,) * (later - layer)
        return tokens

    @property
    def layer_average(self) -> float:
        """Kept share of the visual tokens, averaged over the layers: the retention that is really reached."""
        return sum(self.tokens_by_layer) / (self.num_layers * self.visual_tokens)

    @property
    def final_layer(self) -> float:
        """Kept share of the visual tokens in the last layer."""
        return self.budgets[-1] / self.visual_tokens


def retention_of(kept: Sequence[float], layers: Layers, num_layers: int, budget_rule: BudgetRule) -> float:
    """The retention, under a budget rule, of a method that keeps the shares `kept` of the visual tokens.

    kept: share of the visual tokens left after each stage, each in [0, 1].
    layers: the pruning layers.
    num_layers: depth of the decoder.
    """
    if budget_rule != "average":
        return kept[0 if budget_rule == "after-prune" else -1]
    runs = (later - earlier for earlier, later in pairwise((0, *layers, num_layers)))
    return sum(run * share for run, share in zip(runs, (1.0, *kept), strict=True)) / num_layers


def shares(budget: int, sizes: Sequence[int]) -> list[int]:
    """The parts of a budget that fall to each crop: equal, as far as the crops' sizes allow.

    What does not divide goes to the first crops. A budget beyond the sum of all sizes fills each crop.

    budget: number of tokens to keep.
    sizes: number of tokens in each crop.
    """
    parts = [0] * len(sizes)
    while (rest := min(budget, sum(sizes)) - sum(parts)) > 0:
        not_full = [i for i, size in enumerate(sizes) if parts[i] < size]
        each = max(rest // len(not_full), 1)
        for i in not_full[: rest if each == 1 else None]:
            parts[i] += min(each, sizes[i] - parts[i])
    return parts


def proportional(budget: int, sizes: Sequence[int]) -> list[int]:
    """The parts of a budget that fall to each block, in proportion to its size. A small block may get nothing.

    The sum of the first parts, of the first two and so on is rounded down, so that all parts add up to the budget.

    budget: number of tokens to keep, at most the sum of all sizes.
    sizes: number of tokens in each block.
    """
    total = sum(sizes)
    ends = [budget * end // total for end in accumulate(sizes)]
    return [end - start for start, end in pairwise([0, *ends])]


def check_retention(retention: float) -> None:
    """Raise RetentionError for a retention outside (0, 1]. NaN is outside."""
    if not 0 < retention <= 1:
        raise RetentionError(f"retention {retention} is outside (0, 1]")


def check_layers(layers: Layers, num_layers: int) -> None:
    """Raise OptionError for layers that are empty, out of range or not ascending.

    layers: the pruning layers.
    num_layers: depth of the decoder.
    """
    if not layers:
        raise OptionError("layers () is empty: name at least one layer to prune after")
    if any(not 0 <= layer < num_layers for layer in layers):
        raise OptionError(
            f"layers {layers}: a decoder of {num_layers} layers can be pruned after layers 1 … {num_layers - 1}"
        )
    if any(later <= earlier for earlier, later in pairwise(layers)):
        raise OptionError(f"layers {layers} must ascend")


def check_depth(num_layers: int) -> None:
    """Raise OptionError for a decoder of fewer than two layers."""
    if num_layers < 2:
        raise OptionError(f"num_layers {num_layers}: pruning between layers needs at least 2")


def _check_visual_tokens(visual_tokens: int) -> None:
    if visual_tokens < 1:
        raise OptionError(f"visual_tokens {visual_tokens}: a schedule needs at least 1")


def _stages(
    retention: float, visual_tokens: int, num_layers: int, layers: Sequence[int] | None, proportion: Proportion
) -> tuple[Layers, list[float]]:
    """The pruning layers, and the proportion of their budgets. The arguments are checked as `Schedule.average` says."""
    places = tuple(layers) if layers is not None else default_layers(num_layers)
    check_layers(places, num_layers)
    _check_visual_tokens(visual_tokens)
    check_retention(retention)
    if not proportion or min(proportion) <= 0 or any(later > earlier for earlier, later in pairwise(proportion)):
        raise OptionError(f"proportion {tuple(proportion)}: name positive numbers that never grow")
    return places, stretched(len(places), proportion)


def stretched(stages: int, proportion: Proportion) -> list[float]:
    """[stages], a proportion for another number of stages: the given numbers as a line, read at equal steps.

    stages: the wanted number of stages.
    proportion: positive numbers that never grow.
    """
    if stages == len(proportion):
        return [float(share) for share in proportion]
    if stages == 1:
        return [1.0]
    profile: list[float] = []
    for i in range(stages):
        x = i * (len(proportion) - 1) / (stages - 1)
        at = min(int(x), len(proportion) - 2)
        profile.append(proportion[at] + (proportion[at + 1] - proportion[at]) * (x - at))
    return profile
