"""The contract of a pruning method: a dataclass of options, facts about the class, and `select`.

Importing a subclass of `Method` that has a `name` registers it. Every file in `trio_core/methods/` is imported.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import Field, dataclass, field, fields
from enum import StrEnum
from functools import partial
from itertools import pairwise
from operator import index
from typing import Any, ClassVar, Literal, get_args, get_origin

from torch import OutOfMemoryError, Tensor

from trio_core.errors import MethodError, OptionError, TrioError, first_line
from trio_core.methods.view import Selection, Signal, View
from trio_core.models.encoder import Choice
from trio_core.rules.cost import LayerShape, PromptSizes, Sizes
from trio_core.rules.schedule import (
    DEFAULT_LAYERS,
    PROPORTION,
    BudgetRule,
    Layers,
    Proportion,
    Schedule,
    check_layers,
    check_retention,
    default_layers,
)
from trio_core.rules.selection import top_k
from trio_core.tensors import ScoresBS, ScoresN

Positions = Literal["original", "compact"]
Media = Literal["pictures", "videos", "both"]


class Stage(StrEnum):
    """Where a method acts."""

    ENCODER = "before the decoder"
    DECODER = "decoder layers"
    BOTH = "before the decoder, then decoder layers"


@dataclass(frozen=True)
class Reference:
    """Where a rule comes from.

    title: the title of the paper, or a description of the rule where there is no paper.
    arxiv: the arXiv number of the paper.
    repository: the public code that the rule was checked against, `owner/name` on GitHub.
    commit: the commit of that code, 40 digits.
    kind: `paper` for a published rule; `description` for a paper without public code; `control` for a rule of ours that
        methods are compared with.
    licence: of the code, where it restricts use or is missing; else empty.
    trained: whether the source trains the model for the rule: `no`, or `optional` if it has a form with training too.
        Nothing is trained here.
    note: each deliberate difference from the source, and what a user must know. docs/reference/methods.md begins with
        the differences that all methods have.
    caution: at most 70 characters that tables and pages print beside the method. It takes the place of what `remark`
        says by itself.
    """

    title: str
    arxiv: str = ""
    repository: str = ""
    commit: str = ""
    kind: Literal["paper", "description", "control"] = "paper"
    licence: str = ""
    trained: Literal["no", "optional"] = "no"
    note: str = ""
    caution: str = ""

    @property
    def remark(self) -> str:
        """The remark of tables and pages beside the method: whose rule it is, and whether its code may be used."""
        if self.caution:
            return self.caution
        if self.kind == "description":
            return "from the description"
        if "NC" in self.licence:
            return "its code is non-commercial"
        return "control" if self.kind == "control" else ""


registry: dict[str, type["Method"]] = {}
"""Every method class that has been imported, by name."""


def within(interval: str, default: int | float | None) -> Any:
    """A field for a number that lies in an interval. Making the method raises OptionError for any other number.

    interval: such as `(0, 1]`, where a round bracket leaves its end out, or `[1, inf)`.
    """
    return field(default=default, metadata={"interval": interval})


def _check_option(option: "Field[Any]", value: Any) -> None:
    """Raise OptionError for a value that is none of the field's Literal, or outside the interval of `within`."""
    if get_origin(option.type) is Literal and value not in get_args(option.type):
        raise OptionError(f"{option.name} {value!r}: choose {' or '.join(get_args(option.type))}")
    if interval := option.metadata.get("interval"):
        low, high = map(float, interval[1:-1].split(","))
        above = value >= low if interval[0] == "[" else value > low
        below = value <= high if interval[-1] == "]" else value < high
        if not (above and below):
            raise OptionError(f"{option.name} {value} is outside {interval}")


def _are_whole(values: Any, least: int) -> bool:
    """Whether a fact is a tuple of whole numbers that are not below `least`, with one of them at least."""
    return isinstance(values, tuple | list) and bool(values) and all(type(v) is int and v >= least for v in values)


_FACTS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "name": (
        lambda name: isinstance(name, str) and re.fullmatch(r"[\w.-]*", name, re.ASCII) is not None,
        "a word of letters, digits, '.', '_' and '-'",
    ),
    "stage": (lambda stage: isinstance(stage, Stage), "a trio_core.Stage"),
    "needs": (
        lambda needs: isinstance(needs, set | frozenset) and all(isinstance(signal, Signal) for signal in needs),
        "a frozenset of trio_core.Signal",
    ),
    "media": (lambda media: media in get_args(Media), f"one of {', '.join(get_args(Media))}"),
    "paper_layers": (partial(_are_whole, least=0), "a tuple of layers"),
    "proportion": (partial(_are_whole, least=1), "a tuple of whole numbers above 0"),
    "reference": (lambda reference: isinstance(reference, Reference), "a trio_core.Reference"),
}
"""What each fact of a class must be, as a test and in words."""


def _check_facts(cls: type["Method"]) -> None:
    """Raise OptionError for a fact that is not what it must be: it would fail late, after a measurement."""
    for fact, (is_right, words) in _FACTS.items():
        value = getattr(cls, fact)
        if not (isinstance(value, property) or is_right(value)):
            raise OptionError(f"{fact} = {value!r} of method {cls.__module__}:{cls.__qualname__} must be {words}")


@contextmanager
def blamed(method: type["Method"]) -> Iterator[None]:
    """Let an error of a user's method name the method: it becomes a MethodError.

    Errors of trio_core and of a full memory, and those in methods of trio_core, stay as they are.
    """
    try:
        yield
    except (TrioError, MemoryError, OutOfMemoryError):
        raise
    except Exception as error:
        parts: tuple[type[Method], ...] = getattr(method, "part_classes", (method,))
        theirs = [part for part in parts if not part.__module__.startswith("trio_core.")]
        if not theirs:
            raise
        names = " + ".join(f"{part.__module__}:{part.__qualname__}" for part in theirs)
        raise MethodError(f"method {names} raised {type(error).__name__}: {first_line(error)}") from error


@dataclass(frozen=True, kw_only=True)
class Method(ABC):
    """A pruning method with its options. A subclass adds the paper's hyper-parameters as fields.

    retention: share of the visual tokens to keep, in (0, 1]. Give either this or `budgets`.
    layers: prune after these decoder layers, 1-based and ascending. None: the paper's layers for the model's depth.
    budgets: number of tokens to keep at each of `layers`. A sample with fewer tokens keeps them all.
    positions: `original` keeps the position ids of the kept tokens; `compact` renumbers them without gaps, as much
        released code does on LLaVA. It is undefined for positions with several axes (Qwen).
    budget_rule: what `retention` is a share of. `average`: all layers, the unpruned first ones included; `after-prune`:
        the tokens after the first stage; `final`: the tokens in the last layer.

    Raises OptionError for options that exclude each other or are out of range, RetentionError for the retention.
    """

    retention: float | None = None
    layers: tuple[int, ...] | None = None
    budgets: tuple[int, ...] | None = None
    positions: Positions = "original"
    budget_rule: BudgetRule = "average"

    name: ClassVar[str] = ""
    stage: ClassVar[Stage] = Stage.DECODER
    needs: ClassVar[frozenset[Signal]] = frozenset()
    """The signals that the method reads from its view."""
    grids_suffice: ClassVar[bool] = False
    """Whether a method that looks into the vision tower asks for nothing but the grids of its tokens and their values.

    It then also runs where the tower cannot be read. The values are those that enter the decoder there.
    """
    media: ClassVar[Media] = "both"
    """The kind of input that the method is for. `pictures` refuses a prompt with a video. `videos` refuses a sample
    without one whose frames are known (`Sample.videos`)."""
    paper_layers: ClassVar[tuple[int, ...]] = DEFAULT_LAYERS[32]
    """The pruning layers of the paper inside a decoder of 32 layers. Here they are TRIO's."""
    scales_layers: ClassVar[bool] = True
    """Whether a decoder of another depth is pruned at the same shares of its depth. False: after the same layers."""
    proportion: ClassVar[tuple[int, ...]] = PROPORTION
    """The budgets of several stages stand in this proportion, unless `profile` says otherwise."""
    reference: ClassVar[Reference] = Reference(title="")
    """Where the rule comes from. Without a title, no source is shown."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        _check_facts(cls)
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
        self._check_places()
        for option in fields(self):
            if (value := getattr(self, option.name)) is not None:
                _check_option(option, value)

    def _check_places(self) -> None:
        """Raise OptionError for `layers` at which a method of this stage cannot act."""
        if self.layers is None:
            return
        fits, way_out = {
            Stage.ENCODER: (self.layers == (0,), "it acts before the decoder, which is layers (0,)"),
            Stage.DECODER: (0 not in self.layers, "they are 1-based; the first place to prune is after layer 1"),
            Stage.BOTH: (self.layers[:1] == (0,), "it begins before the decoder, which is layer 0"),
        }[self.stage]
        if not fits:
            raise OptionError(f"{self.name}: layers {self.layers}: {way_out}")

    @property
    def needs_layer_parts(self) -> bool:
        """Whether the method calls the modules of a layer one by one (`LayerCall.attention`)."""
        return Signal.LAYERS in self.needs

    @property
    def thins_tower(self) -> bool:
        """Whether the vision tower runs on the kept tokens' patches only (`PixelMethod`)."""
        return Signal.PIXELS in self.needs

    @classmethod
    def summary(cls) -> str:
        """The method in one line: the first line of its docstring. Empty for a class without one."""
        first = (cls.__doc__ or "").strip().partition("\n")[0]
        # A dataclass without a docstring gets its signature for one.
        return "" if first.startswith(f"{cls.__name__}(") else first

    @classmethod
    def option_names(cls) -> tuple[str, ...]:
        """The names of all options. Those that every method has come first."""
        return tuple(field.name for field in fields(cls))

    @classmethod
    def field_of(cls, option: str) -> str | None:
        """The field that an option sets, or None if the method has no such option.

        option: its name, as a user writes it.
        """
        return option if option in cls.option_names() else None

    def positions_in(self, multi_axis_positions: bool) -> Positions | None:
        """The positions that the kept tokens get in a family, or None where the wanted ones are undefined.

        multi_axis_positions: whether the family's positions have several axes.
        """
        return None if multi_axis_positions and self.positions == "compact" else self.positions

    def default_layers(self, num_layers: int) -> Layers:
        """The pruning layers for a decoder of `num_layers` layers, by `stage`, `paper_layers` and `scales_layers`."""
        if self.stage is Stage.ENCODER:
            return (0,)
        inside = default_layers(num_layers, self.paper_layers) if self.scales_layers else self.paper_layers
        return (0, *inside) if self.stage is Stage.BOTH else inside

    def profile(self, layers: Layers, num_layers: int) -> Proportion:  # noqa: ARG002
        """The proportion of the budgets that `retention` asks for.

        layers: the pruning layers, already checked.
        num_layers: depth of the decoder.
        """
        return self.proportion

    def schedule(self, visual_tokens: int, num_layers: int) -> Schedule:
        """The stages and budgets for one sample.

        visual_tokens: V0, how many visual tokens enter the decoder.
        num_layers: depth of the decoder.

        Raises RetentionError for a retention that the layers cannot reach, OptionError for bad layers or budgets.
        """
        if self.budgets is None:
            assert self.retention is not None
            layers = self.default_layers(num_layers) if self.layers is None else self.layers
            check_layers(layers, num_layers)
            keeping = partial(Schedule.keeping, stage=0 if self.budget_rule == "after-prune" else -1)
            solve = Schedule.average if self.budget_rule == "average" else keeping
            return solve(
                retention=self.retention,
                visual_tokens=visual_tokens,
                num_layers=num_layers,
                layers=layers,
                proportion=self.profile(layers, num_layers),
            )
        assert self.layers is not None
        if any(budget < 1 for budget in self.budgets):
            raise OptionError(f"budgets {self.budgets}: keep at least 1 token at each stage")
        available = tuple(min(budget, visual_tokens) for budget in self.budgets)
        return Schedule(self.layers, available, visual_tokens, num_layers)

    def schedule_in(self, shape: LayerShape, visual_tokens: int, num_layers: int) -> Schedule:  # noqa: ARG002
        """The schedule of one sample in a decoder of these widths: that of `schedule`, unless a method says otherwise.

        shape: the widths of a decoder layer and of the vision tower.

        The other arguments and the errors are those of `schedule`.
        """
        return self.schedule(visual_tokens, num_layers)

    @abstractmethod
    def select(self, view: View) -> Selection:
        """Which visual tokens stay: for each sample exactly `budget` indices, ascending.

        view: the batch at this stage.
        """

    def overhead(self, shape: LayerShape, layer: int, sizes: Sizes) -> int:  # noqa: ARG002
        """MACs of the selection at one stage, for one sample.

        shape: the widths of a decoder layer and of the vision tower.
        layer: the stage stands after this layer.
        sizes: the token counts at the stage.
        """
        return 0

    def selection_macs(self, shape: LayerShape, schedule: Schedule, prompt: PromptSizes) -> int:
        """MACs of all selections for one sample. A stage that drops nothing costs nothing.

        shape: the widths of a decoder layer and of the vision tower.
        schedule: the stages and budgets of the sample.
        prompt: the token counts of the sample. The visual tokens are read from the schedule.
        """
        stages = zip(schedule.layers, pairwise((schedule.visual_tokens, *schedule.budgets)), strict=True)
        text, after = prompt.text_tokens, prompt.text_after
        return sum(
            index(self.overhead(shape, layer, Sizes(before + text, before, kept, after, schedule.visual_tokens)))
            for layer, (before, kept) in stages
            if kept < before
        )


class ScoreMethod(Method):
    """A method that keeps the visual tokens with the highest scores. Equal scores go to the lower index.

    A subclass writes `score`, and `select` follows from it.
    """

    @abstractmethod
    def score(self, view: View) -> ScoresBS | Sequence[ScoresN]:
        """The scores: either [B, S] for all tokens, read at the visual tokens only, or one [N] for each sample.

        view: the batch at this stage.
        """

    def select(self, view: View) -> Selection:
        """The `budget` visual tokens with the highest scores, for each sample."""
        rated = self.score(view)
        scores = tuple(rated[s.index, s.rows] if isinstance(rated, Tensor) else rated[s.index] for s in view.samples)
        return Selection(tuple(top_k(scores[s.index], s.budget) for s in view.samples), scores)


class PixelMethod(Method):
    """A method that chooses by pixels, before the vision tower runs. The tower then runs on the kept patches alone.

    A subclass writes `keep_pixels`, and `select` follows from it.
    """

    stage: ClassVar[Stage] = Stage.ENCODER
    needs: ClassVar[frozenset[Signal]] = frozenset({Signal.PIXELS})
    media: ClassVar[Media] = "pictures"

    @abstractmethod
    def keep_pixels(self, pictures: Sequence[Tensor], budget: int) -> Choice:
        """The visual tokens of one sample that go through the tower.

        pictures: each [H, W, P], the pixel values of its visual tokens; N tokens in all.
        budget: K, 1 … N.
        """

    def select(self, view: View) -> Selection:
        """The choice of `keep_pixels`, on which the tower has run."""
        choices, device = view.signals[Signal.PIXELS], view.hidden.device
        kept, scores = (tuple(getattr(c, name).to(device) for c in choices) for name in ("kept", "scores"))
        return Selection(kept, scores)
