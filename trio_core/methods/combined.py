"""Methods of two parts: one method acts before the decoder, another one inside it.

`trio_core.methods.find("visionzip+trio")` makes such a class out of any two methods that fit (`combine`).
"""

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, make_dataclass, replace
from functools import cache
from itertools import pairwise
from math import gcd, sqrt
from typing import Any, ClassVar, get_type_hints

from trio_core.errors import OptionError, RetentionError
from trio_core.methods.method import Method, Reference, Stage, within
from trio_core.methods.view import Selection, View
from trio_core.rules.cost import LayerShape, PromptSizes, Sizes
from trio_core.rules.schedule import Layers, Schedule

FREEDOM = 64
"""The first part's budget may move by V0 / 64, if the layer average comes nearer to the retention then."""


class TwoParts(Method):
    """A method of two parts: each stage is the part's that acts there.

    A subclass says which methods the parts are. Its own `retention`, `layers` and `budgets` decide the schedule.
    """

    stage: ClassVar[Stage] = Stage.BOTH

    encoder_part: Method
    """The method that acts before the decoder, with its options."""
    decoder_part: Method
    """The method that acts inside the decoder, with its options."""

    @abstractmethod
    def parts(self) -> tuple[Method, Method]:
        """Make both parts: the one before the decoder, and the one inside it. Called once."""

    def __post_init__(self) -> None:
        super().__post_init__()
        encoder, decoder = self.parts()  # a part refuses an option out of range
        media = {part.media for part in (encoder, decoder)} - {"both"} or {"both"}
        if len(media) > 1:
            raise OptionError(f"{self.name}: one part is for pictures only, the other for videos only; use one alone")
        # What a part needs may depend on the options, so it is a fact about the object.
        vars(self).update(
            encoder_part=encoder, decoder_part=decoder, needs=encoder.needs | decoder.needs, media=media.pop()
        )

    @property
    def needs_layer_parts(self) -> bool:
        """Whether one of the parts calls the modules of a layer one by one."""
        return self.encoder_part.needs_layer_parts or self.decoder_part.needs_layer_parts

    def select(self, view: View) -> Selection:
        """The selection of the part that acts at this stage."""
        return self._part_at(view.layer).select(view)

    def overhead(self, shape: LayerShape, layer: int, sizes: Sizes) -> int:
        """MACs of the selection of the part that acts at this stage."""
        return self._part_at(layer).overhead(shape, layer, sizes)

    def selection_macs(self, shape: LayerShape, schedule: Schedule, prompt: PromptSizes) -> int:
        """MACs of all selections of both parts for one sample. The second part's picture is what the first one left.

        The arguments are those of `Method.selection_macs`.
        """
        parts = zip((self.encoder_part, self.decoder_part), split(schedule), strict=True)
        return sum(part.selection_macs(shape, own, prompt) for part, own in parts)

    def _part_at(self, layer: int) -> Method:
        return self.encoder_part if layer == 0 else self.decoder_part


def split(schedule: Schedule) -> tuple[Schedule, Schedule]:
    """The schedule of each part. The second one begins with the tokens that the first one leaves.

    schedule: one that begins at layer 0 and has further stages.
    """
    left, num_layers = schedule.budgets[0], schedule.num_layers
    first = Schedule((0,), (left,), schedule.visual_tokens, num_layers)
    return first, Schedule(schedule.layers[1:], schedule.budgets[1:], left, num_layers)


def _joined(left: int, inside: Schedule, visual_tokens: int) -> Schedule:
    """One schedule of both parts. left: what the first one keeps. inside: the schedule of the second one on these."""
    return Schedule((0, *inside.layers), (left, *inside.budgets), visual_tokens, inside.num_layers)


@dataclass(frozen=True, kw_only=True)
class Combined(TwoParts):
    """Run one method before the decoder, and another one inside it.

    encoder_retention: share of the visual tokens that the first method keeps, in (0, 1]. None: √retention, to V0 / 64
        tokens, so that the second method keeps √retention of what it gets. Either way both together keep `retention`.

    `layers` may name the decoder's layers only. With `budgets` it begins with 0, the place before the decoder.
    budget_rule `after-prune` counts the tokens after the first stage inside the decoder.
    """

    encoder_retention: float | None = within("(0, 1]", None)

    part_classes: ClassVar[tuple[type[Method], type[Method]]]
    """The class that acts before the decoder, and the one that acts inside it."""
    own_options: ClassVar[Mapping[str, tuple[int, str]]]
    """For each option of one part: whose it is (0 or 1), and its name there."""

    @classmethod
    def field_of(cls, option: str) -> str | None:
        """The field that an option sets, or None. Raises OptionError for an option of both parts that names no part."""
        if option not in cls.option_names() and f"encoder_{option}" in cls.own_options:
            raise OptionError(
                f"option {option!r} of {cls.name}: both parts have it; write encoder_{option} or decoder_{option}"
            )
        return super().field_of(option)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.encoder_retention is not None and self.budgets is not None:
            raise OptionError(f"{self.name}: give either encoder_retention or budgets, not both")

    def _check_places(self) -> None:
        before = self.layers is None or self.layers[:1] == (0,)
        if self.layers == (0,) or (self.budgets is not None and not before):
            raise OptionError(
                f"{self.name}: budgets {self.budgets} with layers {self.layers}: begin both with the place before the "
                "decoder, which is layer 0, and go on with the decoder's layers"
            )

    def default_layers(self, num_layers: int) -> Layers:
        """Before the decoder, and after the layers of the method inside it."""
        return (0, *self.decoder_part.default_layers(num_layers))

    def parts(self) -> tuple[Method, Method]:
        """Both methods, with their options. Their retention is a stand-in, which `schedule` replaces."""
        layers = self.layers[1:] if self.layers and self.layers[0] == 0 else self.layers
        before, inside = (None, None) if self.budgets is None else (self.budgets[:1], self.budgets[1:])
        return self._part(0, layers=(0,), budgets=before), self._part(1, layers=layers, budgets=inside)

    def _part(self, place: int, **places: Any) -> Method:
        own = {option: getattr(self, name) for name, (whose, option) in self.own_options.items() if whose == place}
        shared = {"retention": self.retention, "positions": self.positions, "budget_rule": self.budget_rule}
        return self.part_classes[place](**shared, **places, **own)

    def schedule(self, visual_tokens: int, num_layers: int) -> Schedule:
        """The stages and budgets of both parts for one sample. Their layer average is `retention`.

        visual_tokens: V0, how many visual tokens enter the decoder.
        num_layers: depth of the decoder.

        Raises RetentionError for a retention that the parts cannot reach, OptionError for bad layers or budgets.
        """
        if self.retention is None:
            left = self.encoder_part.schedule(visual_tokens, num_layers).budgets[-1]
            return _joined(left, self.decoder_part.schedule(left, num_layers), visual_tokens)
        share = sqrt(self.retention) if self.encoder_retention is None else self.encoder_retention
        if share < self.retention:
            raise RetentionError(
                f"{self.name}: encoder_retention {share} is below the retention {self.retention:.4g} of both parts: "
                "raise it"
            )
        first = replace(self.encoder_part, retention=share).schedule(visual_tokens, num_layers).budgets[-1]
        nearest = self._with_encoder_budget(first, visual_tokens, num_layers)
        if self.encoder_retention is not None or self.budget_rule != "average":
            return nearest
        total = round(num_layers * self.retention * visual_tokens)

        def distance(schedule: Schedule) -> int:
            return abs(sum(schedule.tokens_by_layer) - total)

        step = gcd(*(later - layer for layer, later in pairwise((*nearest.layers, num_layers))))  # of every cost
        for shift in range(1, visual_tokens // FREEDOM + 1):
            for left in (first - shift, first + shift):
                if distance(nearest) <= min(total % step, -total % step):
                    return nearest
                if 1 <= left <= visual_tokens:
                    nearest = min(nearest, self._with_encoder_budget(left, visual_tokens, num_layers), key=distance)
        return nearest

    def _with_encoder_budget(self, left: int, visual_tokens: int, num_layers: int) -> Schedule:
        """The schedule where the first part keeps `left` tokens, and both together keep `retention`.

        Raises RetentionError if the second part cannot keep so little.
        """
        assert self.retention is not None
        layers = num_layers if self.budget_rule == "average" else 1
        wanted = min(1.0, max(1, round(layers * self.retention * visual_tokens)) / (layers * left))
        try:
            inside = replace(self.decoder_part, retention=wanted).schedule(left, num_layers)
        except RetentionError as error:
            first, second = (method_name(part) for part in self.part_classes)
            raise RetentionError(
                f"{self.name}: for retention {self.retention:.4g} {first} keeps {left} of {visual_tokens} tokens, and "
                f"of these {second} cannot keep so few: {error}; lower encoder_retention, raise retention, or choose "
                "earlier layers"
            ) from error
        return _joined(left, inside, visual_tokens)

    def __reduce__(self) -> tuple[Any, ...]:
        """How to copy or pickle it: its class is made at run time."""
        return _rebuilt, (*self.part_classes, {option.name: getattr(self, option.name) for option in fields(self)})


@cache
def combine(encoder: type[Method], decoder: type[Method]) -> type[Combined]:
    """The class of both methods as one. It has the options of every method, `encoder_retention`, and both parts' own.

    Where both have an option of the same name, the fields are `encoder_NAME` and `decoder_NAME`.

    encoder: a method of the stage `Stage.ENCODER`.
    decoder: a method of the stage `Stage.DECODER`.

    Raises OptionError for a method that does not fit.
    """
    parts, name = (encoder, decoder), f"{method_name(encoder)}+{method_name(decoder)}"
    _check_stages(encoder, decoder, name)
    shared = set(Combined.option_names())
    own = [
        [option for option in fields(part) if option.init and option.name not in Method.option_names()]
        for part in parts
    ]
    both = {option.name for option in own[0]} & {option.name for option in own[1]} | shared
    made: list[tuple[str, Any, Any]] = []
    owners: dict[str, tuple[int, str]] = {}
    for place, kind in enumerate(("encoder", "decoder")):
        types = get_type_hints(parts[place])  # `option.type` is a text under `from __future__ import annotations`
        for option in own[place]:
            named = f"{kind}_{option.name}" if option.name in both else option.name
            same = field(default=option.default, default_factory=option.default_factory, metadata=option.metadata)
            made.append((named, types[option.name], same))
            owners[named] = place, option.name
    for name_of_all in ("positions", "budget_rule"):
        ours, *theirs = (cls.__dataclass_fields__[name_of_all] for cls in (Method, decoder, encoder))
        if changed := [option for option in theirs if option.default != ours.default]:
            made.append((name_of_all, ours.type, field(default=changed[0].default)))
    label = f"{encoder.__name__}{decoder.__name__}"
    cls = make_dataclass(label, made, bases=(Combined,), frozen=True, kw_only=True)
    facts: dict[str, Any] = {
        "__module__": __name__,
        "__doc__": f"Run {method_name(encoder)} before the decoder, then {method_name(decoder)} inside it.",
        "part_classes": parts,
        "own_options": owners,
        # A name that is set here and not in the class body keeps the class out of the registry.
        "name": name,
        "needs": encoder.needs | decoder.needs,
        "reference": _reference(encoder, decoder),
    }
    for fact, value in facts.items():
        setattr(cls, fact, value)
    return cls


def method_name(method: type[Method]) -> str:
    """The name that a user gives to a method: its name, or its path if it has none."""
    return method.name or f"{method.__module__}:{method.__qualname__}"


def _check_stages(encoder: type[Method], decoder: type[Method], name: str) -> None:
    """Raise OptionError unless the first method acts before the decoder only, and the second inside it only."""
    for part, stage, place, example in (
        (encoder, Stage.ENCODER, "before", "before the decoder alone, such as visionzip"),
        (decoder, Stage.DECODER, "after", "inside the decoder alone, such as trio"),
    ):
        if part.stage is not stage:
            raise OptionError(
                f"method {name!r}: {method_name(part)!r} acts at {part.stage.value}; {place} the + name a method that "
                f"acts {example}"
            )


def _reference(encoder: type[Method], decoder: type[Method]) -> Reference:
    """Both sources side by side. No paper proposes the combination, so it is ours."""
    sources = [encoder.reference, decoder.reference]
    kinds = {source.kind for source in sources}

    def both(fact: str, separator: str = ", ") -> str:
        return separator.join(text for source in sources if (text := getattr(source, fact)))

    remarks = ["our combination"]
    remarks += ["a part is from its description"] if "description" in kinds else []
    remarks += ["non-commercial code"] if "NC" in both("licence") else []
    return Reference(
        title=both("title", "; then "),
        arxiv=both("arxiv"),
        repository=both("repository"),
        commit=both("commit"),
        kind="control" if "control" in kinds else "description" if "description" in kinds else "paper",
        licence=both("licence"),
        trained="optional" if any(source.trained == "optional" for source in sources) else "no",
        caution="control" if "control" in kinds else "; ".join(remarks),
    )


def _rebuilt(encoder: type[Method], decoder: type[Method], options: dict[str, Any]) -> Combined:
    return combine(encoder, decoder)(**options)
