"""Retention ↔ budgets: how many visual tokens each decoder layer sees.

*Retention* is the share of the visual tokens averaged over the decoder's layers, the unpruned first layers counted.
A stage at layer l means: layers 1 … l run on all current tokens, the layers after l on the kept ones. This module is
pure Python on integers; nothing here imports torch.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import ceil, gcd

from trio_core.errors import OptionError, RetentionError, UnknownName

Layers = tuple[int, ...]

PROPORTION = (92, 54, 22)
"""The published budgets of LLaVA at an average of 64 tokens; three stages keep this proportion at any retention."""

DEFAULT_LAYERS: dict[int, Layers] = {32: (1, 10, 15), 28: (1, 8, 14)}
"""Pruning layers by decoder depth, as the TRIO paper sets them for LLaVA (32) and Qwen2.5-VL (28)."""


def default_layers(num_layers: int, of_32: Layers = (1, 10, 15)) -> Layers:
    """A paper's pruning layers for a decoder of `num_layers`, in proportion where the paper names none.

    of_32: the paper's layers in a decoder of 32; TRIO's, whose own for 28 are known (`DEFAULT_LAYERS`), if not said.

    Raises OptionError for a decoder of fewer than two layers: there is nothing to prune between.
    """
    if num_layers < 2:
        raise OptionError(f"num_layers {num_layers}: pruning between layers needs at least 2")
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

    layers: 1-based and ascending; 0 is the boundary before the decoder, where encoder methods act.
    budgets: tokens kept at each stage, never growing.
    visual_tokens: V0, what enters the decoder. num_layers: L, the decoder's depth.
    """

    layers: Layers
    budgets: tuple[int, ...]
    visual_tokens: int
    num_layers: int

    def __post_init__(self) -> None:
        check_layers(self.layers, self.num_layers)
        if self.visual_tokens < 1:
            raise OptionError(f"visual_tokens {self.visual_tokens}: a schedule needs at least 1")
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
        proportion: Sequence[int] = PROPORTION,
    ) -> "Schedule":
        """Solve for the budgets whose sum over the layers is `round(num_layers · retention · visual_tokens)`.

        The sum is met exactly where integers allow (at the published layers: everywhere but within 0.8 % of either end
        for 576 tokens), else as nearly as they do: read `layer_average` for what was reached. Budgets stand in the
        `proportion`, TRIO's 92 : 54 : 22 if not said (the same profile, interpolated, for another number of stages),
        are clamped to what is there, and what a clamp leaves over is spread.

        Raises RetentionError for a retention outside (0, 1] or below what the unpruned first layers already cost, and
        OptionError for a proportion that is not positive or grows.
        """
        chosen = tuple(layers) if layers is not None else default_layers(num_layers)
        check_layers(chosen, num_layers)
        if visual_tokens < 1:
            raise OptionError(f"visual_tokens {visual_tokens}: a schedule needs at least 1")
        check_retention(retention)
        _check_proportion(proportion)
        runs = [later - earlier for earlier, later in pairwise((*chosen, num_layers))]
        unpruned = chosen[0] * visual_tokens
        target = round(num_layers * retention * visual_tokens)
        lowest = unpruned + sum(runs)
        if target < lowest:
            raise RetentionError(
                f"retention {retention:.4g} cannot be reached: with stages after layers {chosen} of {num_layers}, "
                f"{visual_tokens} tokens and one kept at the least, the lowest possible is "
                f"{ceil(1e4 * lowest / (num_layers * visual_tokens)) / 1e4:.4f}"
            )
        budgets = _solve(target - unpruned, runs, _profile(len(runs), proportion), visual_tokens)
        return cls(chosen, budgets, visual_tokens, num_layers)

    @classmethod
    def keeping(
        cls,
        *,
        retention: float,
        visual_tokens: int,
        num_layers: int = 32,
        layers: Sequence[int] | None = None,
        proportion: Sequence[int] = PROPORTION,
        stage: int = 0,
    ) -> "Schedule":
        """Budgets of which one stage's, an index into `layers`, is `round(retention · visual_tokens)`; not an average.

        The others stand to it in the `proportion`, between 1 and what is there. Raises as `average` does, but reaches
        every retention in (0, 1].
        """
        chosen = tuple(layers) if layers is not None else default_layers(num_layers)
        check_layers(chosen, num_layers)
        check_retention(retention)
        _check_proportion(proportion)
        profile = _profile(len(chosen), proportion)
        fixed = max(1, round(retention * visual_tokens))
        budgets = [min(visual_tokens, max(1, round(fixed * share / profile[stage]))) for share in profile]
        return cls(chosen, tuple(budgets), visual_tokens, num_layers)

    def budget_after(self, layer: int) -> int:
        """Tokens that the stage after `layer` keeps."""
        return self.budgets[self.layers.index(layer)]

    @property
    def tokens_by_layer(self) -> tuple[int, ...]:
        """Visual tokens that each of the L layers runs on, first layer first."""
        tokens = (self.visual_tokens,) * self.layers[0]
        for (layer, later), kept in zip(pairwise((*self.layers, self.num_layers)), self.budgets, strict=True):
            tokens += (kept,) * (later - layer)
        return tokens

    @property
    def layer_average(self) -> float:
        """Kept share of the visual tokens averaged over the layers: the retention that was really reached."""
        return sum(self.tokens_by_layer) / (self.num_layers * self.visual_tokens)

    @property
    def final_layer(self) -> float:
        """Kept share of the visual tokens in the last layer."""
        return self.budgets[-1] / self.visual_tokens


def shares(budget: int, sizes: Sequence[int]) -> list[int]:
    """The budget over the crops, equal but for what a small one cannot take; what is left over goes to the first.

    A budget beyond all of them fills each.
    """
    due = [0] * len(sizes)
    while (rest := min(budget, sum(sizes)) - sum(due)) > 0:
        open_ = [i for i, size in enumerate(sizes) if due[i] < size]
        each = max(rest // len(open_), 1)
        for i in open_[: rest if each == 1 else None]:
            due[i] += min(each, sizes[i] - due[i])
    return due


def check_retention(retention: float) -> None:
    """Raise RetentionError for a retention outside (0, 1]; NaN lies outside."""
    if not 0 < retention <= 1:
        raise RetentionError(f"retention {retention} is outside (0, 1]")


def check_layers(layers: Layers, num_layers: int) -> None:
    """Raise OptionError for no layers, for layers that a decoder of `num_layers` does not have, or not ascending."""
    if not layers:
        raise OptionError("layers () is empty: name at least one layer to prune after")
    if any(not 0 <= layer < num_layers for layer in layers):
        raise OptionError(
            f"layers {layers}: a decoder of {num_layers} layers can be pruned after layers 1 … {num_layers - 1}"
        )
    if any(later <= earlier for earlier, later in pairwise(layers)):
        raise OptionError(f"layers {layers} must ascend")


def _check_proportion(proportion: Sequence[int]) -> None:
    if not proportion or min(proportion) <= 0 or any(later > earlier for earlier, later in pairwise(proportion)):
        raise OptionError(f"proportion {tuple(proportion)}: name positive numbers of which none exceeds the one before")


def _profile(stages: int, proportion: Sequence[int]) -> list[float]:
    """The proportion of the budgets for any number of stages: the given line, read at equal steps."""
    if stages == 1:
        return [1.0]
    profile: list[float] = []
    for i in range(stages):
        x = i * (len(proportion) - 1) / (stages - 1)
        at = min(int(x), len(proportion) - 2)
        profile.append(proportion[at] + (proportion[at + 1] - proportion[at]) * (x - at))
    return profile


def _solve(total: int, runs: list[int], profile: list[float], most: int) -> tuple[int, ...]:
    """Integers most ≥ K_1 ≥ K_2 ≥ … ≥ 1 in proportion to `profile`, with Σ runs·K as near to `total` as they allow.

    A stage clamped at `most` drops nothing and costs nothing: it is woken only if the sum cannot be met otherwise.
    """
    ideal = _clamped_proportion(total, runs, profile, most)
    asleep = sum(tokens == most for tokens in ideal)
    best: tuple[int, float, tuple[int, ...]] | None = None
    for first in range(min(asleep, len(runs) - 1), -1, -1):
        rest = total - most * sum(runs[:first])
        error, distance, budgets = _search(rest, runs[first:], ideal[first:], most)
        found = error, distance, (most,) * first + budgets
        best = found if best is None or error < best[0] else best
        if best[0] == 0:
            break
    assert best is not None
    return best[2]


def _search(total: int, runs: list[int], ideal: list[float], most: int) -> tuple[int, float, tuple[int, ...]]:
    """The nearest ladder within a reach of the ideal that is doubled until the sum is met as well as integers can."""
    # Were there no clamps, this would be the least error; a search that meets it can stop, the others at their limit.
    step = gcd(*runs)
    least = min(total % step, -total % step)
    reach = 1
    best = _nearest(total, runs, ideal, most, reach, slack=sum(runs))
    while best[0] > least and reach <= max(runs):
        reach *= 2
        best = _nearest(total, runs, ideal, most, reach, slack=best[0])
    return best


def _clamped_proportion(total: int, runs: list[int], profile: list[float], most: int) -> list[float]:
    """Real numbers K_i = clamp(x · profile_i, 1, most) with Σ runs·K = total.

    The sum grows with x in straight lines, which meet where a stage leaves one clamp or reaches the other.
    """

    def level(x: float) -> list[float]:
        return [min(float(most), max(1.0, x * share)) for share in profile]

    def cost(x: float) -> float:
        return sum(run * tokens for run, tokens in zip(runs, level(x), strict=True))

    unclamped = total / sum(run * share for run, share in zip(runs, profile, strict=True))
    if max(profile) * unclamped <= most and min(profile) * unclamped >= 1:
        return level(unclamped)
    bends = sorted(bound / share for share in profile for bound in (1, most))
    low, before = bends[0], cost(bends[0])
    for high in bends[1:]:
        after = cost(high)
        if after >= total:
            return level(low + (high - low) * (total - before) / (after - before) if after > before else low)
        low, before = high, after
    return level(low)


def _nearest(
    total: int, runs: list[int], ideal: list[float], most: int, reach: int, slack: int
) -> tuple[int, float, tuple[int, ...]]:
    """Among integers within `reach` of `ideal`, the descending ladder with the least (|error|, distance from ideal).

    A walk over the stages that keeps, for each (cost so far, last budget), only the ladder nearest to the ideal, and
    none that must end more than `slack` away from `total`: the rounded-down ideal never does for a slack of Σ runs.
    """
    ladders: dict[tuple[int, int], tuple[float, tuple[int, ...]]] = {(0, most): (0.0, ())}
    rest = sum(runs)
    for run, wanted in zip(runs, ideal, strict=True):
        rest -= run
        longer: dict[tuple[int, int], tuple[float, tuple[int, ...]]] = {}
        least, greatest = max(1, int(wanted) - reach + 1), min(most, int(wanted) + reach)
        for (cost, last), (distance, ladder) in ladders.items():
            # So that what is left of the sum can be met by later budgets between 1 and this one.
            enough = -((slack + cost - total) // (run + rest))
            affordable = (total + slack - rest - cost) // run
            for budget in range(max(least, enough), min(greatest, last, affordable) + 1):
                key = cost + run * budget, budget
                entry = distance + (budget / wanted - 1) ** 2, (*ladder, budget)
                if key not in longer or entry < longer[key]:
                    longer[key] = entry
        ladders = longer
    return min((abs(cost - total), distance, ladder) for (cost, _), (distance, ladder) in ladders.items())


PUBLISHED: dict[str, Schedule] = {
    # ocy1/TRIO at ec85d99: comments and textvqa_set1/2.sh; mme.sh, pope.sh and their kin; bench_prune_speed.py
    "llava-64": Schedule((1, 10, 15), (92, 54, 22), 576, 32),
    "llava-128": Schedule((1, 10, 15), (218, 128, 54), 576, 32),
    "llava-timing-script": Schedule((1, 10, 15), (436, 255, 173), 576, 32),
}
"""Schedules that TRIO's public repository prints, by name."""


def published(name: str) -> Schedule:
    """A published schedule by name. Raises UnknownName."""
    if name not in PUBLISHED:
        raise UnknownName("schedule", name, sorted(PUBLISHED))
    return PUBLISHED[name]
