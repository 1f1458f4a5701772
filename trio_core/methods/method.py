"""What a method is: one dataclass, its class facts, and one function from a view to the kept tokens.

A file in `trio_core/methods/` that subclasses `Method` is registered by being there, by its class fact `name`.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, fields
from enum import StrEnum
from functools import partial
from itertools import pairwise
from typing import Any, ClassVar, Literal, get_args

from torch import Tensor

from trio_core.errors import OptionError
from trio_core.methods.view import Selection, Signal, View
from trio_core.rules.cost import LayerShape, Sizes
from trio_core.rules.schedule import PROPORTION, Layers, Schedule, check_retention, default_layers
from trio_core.rules.selection import top_k
from trio_core.tensors import MaskBS, ScoresBS, ScoresN

Positions = Literal["original", "compact"]
BudgetRule = Literal["average", "after-prune", "final"]


class Stage(StrEnum):
    """Where a method acts."""

    ENCODER = "encoder output"
    DECODER = "decoder layers"
    BOTH = "encoder output, then decoder layers"


@dataclass(frozen=True)
class Reference:
    """Where a rule comes from.

    title: of the paper; or what the rule is, where there is no paper.
    arxiv: number of the paper. repository, commit: the code that the rule was checked against.
    kind: `paper` for a published rule, `description` for a paper without public code, `control` for a rule of ours that
        methods are compared with.
    licence: of the code, where it restricts use or is missing; else empty.
    note: each deliberate difference from the source, and what a user must know.
    caution: a few words that stand beside the method in every table, where `kind` and `licence` do not say enough.
    """

    title: str
    arxiv: str = ""
    repository: str = ""
    commit: str = ""
    kind: Literal["paper", "description", "control"] = "paper"
    licence: str = ""
    note: str = ""
    caution: str = ""

    @property
    def remark(self) -> str:
        """What a reader must know wherever the method is shown: whose rule it is, and whether its code may be used."""
        if self.caution:
            return self.caution
        if self.kind == "description":
            return "from the description"
        if "NC" in self.licence:
            return "its code is non-commercial"
        return "control" if self.kind == "control" else ""


registry: dict[str, type["Method"]] = {}
"""Every method class that has been imported, by name."""


@dataclass(frozen=True, kw_only=True)
class Method(ABC):
    """A pruning method with its options. A subclass adds the paper's hyper-parameters as fields.

    retention: share of the visual tokens to keep, in (0, 1].
    layers: prune after these decoder layers, 1-based and ascending. None: the paper's layers for the model's depth.
    budgets: tokens to keep at each of `layers`, instead of `retention`. A sample with fewer tokens keeps them all.
    positions: `original` keeps the position ids of the tokens that stay; `compact` renumbers them, as most released
        code does on LLaVA. Positions with several axes (Qwen) cannot be renumbered.
    budget_rule: what `retention` is a share of. `average`: all layers, the unpruned first ones included; `after-prune`:
        what the first stage leaves; `final`: what reaches the last layer.

    Raises OptionError when options exclude each other or are out of range (RetentionError for the retention).
    """

    retention: float | None = None
    layers: tuple[int, ...] | None = None
    budgets: tuple[int, ...] | None = None
    positions: Positions = "original"
    budget_rule: BudgetRule = "average"

    name: ClassVar[str] = ""
    stage: ClassVar[Stage] = Stage.DECODER
    needs: ClassVar[frozenset[Signal]] = frozenset()
    """The signals that the method reads (`view.py`)."""
    proportion: ClassVar[tuple[int, ...]] = PROPORTION
    """The proportion of the budgets of several stages."""
    original_where_compact_is_undefined: ClassVar[bool] = False
    """With positions `compact`: whether a family with several axes gets original positions instead of an error."""
    reference: ClassVar[Reference]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if not vars(cls).get("name"):  # a name that is only inherited belongs to the parent
            return
        known = registry.setdefault(cls.name, cls)
        if (known.__module__, known.__qualname__) != (cls.__module__, cls.__qualname__):
            raise OptionError(
                f"method name {cls.name!r} of {cls.__module__} is taken by {known.__module__}: choose another"
            )
        registry[cls.name] = cls

    def __post_init__(self) -> None:
        if (self.retention is None) == (self.budgets is None):
            raise OptionError(f"{self.name}: give either retention or budgets, not both and not neither")
        if self.retention is not None:
            check_retention(self.retention)
        if self.budgets is not None and self.layers is None:
            raise OptionError(f"{self.name}: budgets {self.budgets} need the layers they belong to")
        if self.layers is not None and 0 in self.layers and self.stage is Stage.DECODER:
            raise OptionError(
                f"{self.name}: layers {self.layers} are 1-based; the first place to prune is after layer 1"
            )
        if self.layers is not None and self.layers != (0,) and self.stage is Stage.ENCODER:
            raise OptionError(f"{self.name}: layers {self.layers}: it acts before the decoder, which is layers (0,)")
        if self.layers is not None and self.layers[:1] != (0,) and self.stage is Stage.BOTH:
            raise OptionError(f"{self.name}: layers {self.layers}: it begins before the decoder, which is layer 0")
        if self.budget_rule not in get_args(BudgetRule):
            raise OptionError(f"budget_rule {self.budget_rule!r}: choose {', '.join(get_args(BudgetRule))}")
        if self.positions not in ("original", "compact"):
            raise OptionError(f"positions {self.positions!r}: choose original or compact")

    @property
    def needs_layer_parts(self) -> bool:
        """Whether it calls the modules of a layer one by one (`LayerCall.attention`)."""
        return Signal.LAYERS in self.needs

    @classmethod
    def option_names(cls) -> tuple[str, ...]:
        """The names of all options, shared ones first."""
        return tuple(field.name for field in fields(cls))

    def default_layers(self, num_layers: int) -> Layers:
        """The paper's pruning layers in a decoder of `num_layers`: TRIO's, and 0 for a method of the encoder stage."""
        return (0,) if self.stage is Stage.ENCODER else default_layers(num_layers)

    def candidates(self, visual: MaskBS, valid: MaskBS) -> MaskBS:  # noqa: ARG002
        """[B, S], True at the tokens that may go: the visual ones, which are `visual`. valid: False at padding."""
        return visual

    def schedule(self, visual_tokens: int, num_layers: int) -> Schedule:
        """Stages and budgets for one sample of `visual_tokens` in a decoder of `num_layers`."""
        if self.budgets is None:
            assert self.retention is not None
            solve = {
                "average": Schedule.average,
                "after-prune": partial(Schedule.keeping, stage=0),
                "final": partial(Schedule.keeping, stage=-1),
            }[self.budget_rule]
            return solve(
                retention=self.retention,
                visual_tokens=visual_tokens,
                num_layers=num_layers,
                layers=self.default_layers(num_layers) if self.layers is None else self.layers,
                proportion=self.proportion,
            )
        assert self.layers is not None
        if any(budget < 1 for budget in self.budgets):
            raise OptionError(f"budgets {self.budgets}: keep at least 1 token at each stage")
        available = tuple(min(budget, visual_tokens) for budget in self.budgets)
        return Schedule(self.layers, available, visual_tokens, num_layers)

    @abstractmethod
    def select(self, view: View) -> Selection:
        """For each sample, exactly `view.pictures[b].budget` of its visual tokens, as ascending indices."""

    def overhead(self, shape: LayerShape, layer: int, sizes: Sizes) -> int:  # noqa: ARG002
        """MACs of the selection at the stage after `layer`, for one sample."""
        return 0

    def selection_macs(self, shape: LayerShape, schedule: Schedule, text_tokens: int, text_after: int) -> int:
        """MACs of all selections for one sample. A stage that drops nothing selects nothing.

        text_tokens: of the whole prompt. text_after: of them, those after the picture.
        """
        stages = zip(schedule.layers, pairwise((schedule.visual_tokens, *schedule.budgets)), strict=True)
        return sum(
            self.overhead(shape, layer, Sizes(before + text_tokens, before, kept, text_after, schedule.visual_tokens))
            for layer, (before, kept) in stages
            if kept < before
        )


class ScoreMethod(Method):
    """A method that scores the visual tokens and keeps those with the highest scores. Ties go to the lower index.

    A subclass writes `score`; `select` follows from it.
    """

    @abstractmethod
    def score(self, view: View) -> ScoresBS | Sequence[ScoresN]:
        """Scores of all tokens, [B, S], of which only those of visual tokens are read; or [N] for each sample."""

    def select(self, view: View) -> Selection:
        """The `budget` visual tokens with the highest scores, for each sample."""
        found = self.score(view)
        scores = tuple(found[s.index, s.rows] if isinstance(found, Tensor) else found[s.index] for s in view.samples)
        return Selection(tuple(top_k(scores[s.index], s.budget) for s in view.samples), scores)
