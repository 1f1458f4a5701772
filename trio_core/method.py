"""What a method is: one dataclass, its class facts, and one function from a view to the kept tokens.

A file in `trio_core/methods/` that subclasses `Method` is registered by being there, by its class fact `name`.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from enum import StrEnum
from functools import partial
from itertools import pairwise
from typing import Any, ClassVar, Literal, get_args

from trio_core.errors import OptionError
from trio_core.schedule import PROPORTION, Layers, Schedule, check_retention, default_layers
from trio_core.selection import shares
from trio_core.tensors import MaskBS
from trio_core.view import Selection, Signal, View

Positions = Literal["original", "compact"]
BudgetRule = Literal["average", "after-prune", "final"]


class Stage(StrEnum):
    """Where a method acts."""

    ENCODER = "encoder output"
    DECODER = "decoder layers"
    BOTH = "encoder output, then decoder layers"


@dataclass(frozen=True)
class Reference:
    """Where a rule comes from. `note` states each deliberate difference from it, and its licence if restrictive."""

    title: str
    arxiv: str = ""
    repository: str = ""
    commit: str = ""
    note: str = ""

    @property
    def remark(self) -> str:
        """What must be known wherever the method is shown: whose rule it is, and whether its code may be used."""
        if self.note.startswith("from the description"):
            return "from the description"
        if "CC BY-NC" in self.note:
            return "its code is non-commercial"
        return "control" if self.title.startswith("no canonical source") else ""


@dataclass(frozen=True)
class LayerShape:
    """The widths that a selection's cost depends on. All counts; `ffn_matrices` is 3 for a gated FFN, else 2.

    vision_hidden, vision_heads, patches: of the tower and of one crop, 0 in a family whose tower no method looks into.
    merged: the patches behind one visual token of a tower that merges and projects them itself, 0 in any other; such a
    tower has no CLS token, and crops of any size, so that `patches` is 0.
    """

    hidden: int
    intermediate: int
    query_width: int
    kv_width: int
    heads: int
    vocabulary: int
    ffn_matrices: int
    vision_hidden: int = 0
    vision_heads: int = 0
    patches: int = 0
    merged: int = 0

    def crops(self, visual: int) -> tuple[int, ...]:
        """The patches of each crop behind so many visual tokens: as many crops as they make whole, or one picture.

        Nobody says how many crops were cut to fit, nor how many pictures there are. None in a family whose tower no
        method looks into.
        """
        if self.merged:
            return (visual,)
        return (self.patches,) * max(1, round(visual / self.patches)) if self.patches else ()

    def encoder_attention_macs(self, visual: int) -> int:
        """MACs of `Encoder.attention`: each crop's CLS row, or all rows of a tower that has no CLS token."""
        if self.merged:
            return sum((patches * self.merged) ** 2 for patches in self.crops(visual)) * self.vision_hidden
        return sum(patches + 1 for patches in self.crops(visual)) * self.vision_hidden

    def similarity_macs(self, visual: int, budget: int) -> int:
        """MACs of the cosine of every pair of patches, in the tower's width, within each crop that keeps any."""
        crops = self.crops(visual)
        pairs = sum(n * n for n, share in zip(crops, shares(budget, crops), strict=True) if share)
        return pairs * (self.hidden if self.merged else self.vision_hidden)

    def attention_row_macs(self, tokens: int, rows: int = 1) -> int:
        """MACs of so many rows of a layer's attention: the keys of all tokens, a row's query, its scores."""
        return tokens * self.hidden * self.kv_width + rows * (self.hidden + tokens) * self.query_width


@dataclass(frozen=True)
class Sizes:
    """What one stage looks at, in tokens of one sample.

    tokens: of the whole sequence. visual: of them, the picture's. budget: of those, the ones that stay. text_after: the
    text behind the picture. picture: those that entered the decoder, V0; 0 where it is not said.
    """

    tokens: int
    visual: int
    budget: int
    text_after: int
    picture: int = 0


registry: dict[str, type["Method"]] = {}
"""Every method class that has been imported, by name."""


@dataclass(frozen=True, kw_only=True)
class Method(ABC):
    """A token-pruning method with its options; a subclass adds the paper's hyper-parameters as fields.

    retention: share of the visual tokens to keep, in (0, 1].
    budget_rule: what that share means, as papers use it. `average`: over the decoder's layers, the unpruned first ones
    counted; `after-prune`: of what the first stage leaves; `final`: of what reaches the last layer.
    layers: prune after these decoder layers (1-based, ascending); None takes the paper's for the model's depth.
    budgets: absolute tokens to keep at each of `layers`, instead of `retention`; a sample with fewer keeps them all.
    positions: kept tokens retain their `original` position ids, or are renumbered (`compact`, as TRIO's public code
    does for LLaVA; not defined for multi-axis rotary positions).

    Raises OptionError (RetentionError for the retention) when options exclude each other or lie out of range.
    """

    retention: float | None = None
    layers: tuple[int, ...] | None = None
    budgets: tuple[int, ...] | None = None
    positions: Positions = "original"
    budget_rule: BudgetRule = "average"

    name: ClassVar[str] = ""
    stage: ClassVar[Stage] = Stage.DECODER
    needs: ClassVar[frozenset[Signal]] = frozenset()
    proportion: ClassVar[tuple[int, ...]] = PROPORTION
    """In which the budgets of several stages stand."""
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
    def takes_apart(self) -> bool:
        """Whether it computes some rows of a layer without the others, by the layer's parts (`LayerCall.attention`)."""
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
        """Choose, for each sample, exactly `view.pictures[b].budget` of its visual tokens, ascending."""

    def overhead(self, shape: LayerShape, layer: int, sizes: Sizes) -> int:  # noqa: ARG002
        """MACs that the choice of one stage, after `layer`, costs."""
        return 0

    def selection_macs(self, shape: LayerShape, schedule: Schedule, text_tokens: int, text_after: int) -> int:
        """MACs of all choices on one sample; a stage that drops nothing chooses nothing.

        text_tokens: of the whole prompt. text_after: of them, those behind the picture.
        """
        stages = zip(schedule.layers, pairwise((schedule.visual_tokens, *schedule.budgets)), strict=True)
        return sum(
            self.overhead(shape, layer, Sizes(before + text_tokens, before, kept, text_after, schedule.visual_tokens))
            for layer, (before, kept) in stages
            if kept < before
        )
