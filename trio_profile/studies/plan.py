"""From a study file or options to a checked plan: every cell with its method and its schedule, before anything runs."""

import tomllib
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, get_type_hints

from pydantic import TypeAdapter, ValidationError

from trio_core import methods
from trio_core.errors import OptionError, TrioError
from trio_core.methods.method import Method, Stage
from trio_core.methods.view import Signal
from trio_core.rules.cost import LayerShape
from trio_core.rules.schedule import Schedule
from trio_profile.cost import formula as cost_model
from trio_profile.errors import StudyError
from trio_profile.records.schema import Cell, Measurement, Shape, Study


@dataclass(frozen=True)
class Planned:
    """A cell with what it will do on the study's input."""

    cell: Cell
    method: Method
    schedule: Schedule

    def fastv_overhead_macs(self, shape: Shape, gamma: float) -> int:
        """F_ov of the paper: γ · Σ f(tokens that a stage looks at); nothing for a method without a proxy."""
        if Signal.READOUT not in self.method.needs:
            return 0
        return cost_model.fastv_overhead(self.stage_tokens, shape.hidden, shape.intermediate, gamma) * shape.batch

    def fastv_macs(self, shape: Shape, gamma: float) -> int:
        """F_inf + F_ov of the paper, for the batch."""
        inference = cost_model.fastv_inference(self.schedule.tokens_by_layer, shape.hidden, shape.intermediate)
        return inference * shape.batch + self.fastv_overhead_macs(shape, gamma)

    def selection_macs(self, shape: Shape) -> int:
        """MACs of the choices as the method declares them, for the batch."""
        widths = LayerShape(**{field.name: getattr(shape, field.name) for field in fields(LayerShape)})
        return shape.batch * self.method.selection_macs(widths, self.schedule, shape.text_tokens, shape.text_after)

    @property
    def stage_tokens(self) -> tuple[int, ...]:
        """Visual tokens that each stage looks at; a stage that drops nothing looks at nothing."""
        before = (self.schedule.visual_tokens, *self.schedule.budgets[:-1])
        return tuple(n for n, kept in zip(before, self.schedule.budgets, strict=True) if kept < n)


def make(**fields: Any) -> Study:
    """A Study from plain fields. Raises StudyError naming the field, its value and what it may be."""
    try:
        study = Study(**fields)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "study"
        raise StudyError(f"{where} = {first['input']!r}: {first['msg'].lower()}") from error
    for name, values in (("methods", study.methods), ("retentions", study.retentions)):
        if not values:
            raise StudyError(f"{name} is empty: name at least one")
    for method in study.methods:
        methods.find(method)
    if study.ablations and study.verb != "ablate":
        raise StudyError(f"ablations {', '.join(study.ablations)} are for verb 'ablate', not {study.verb!r}")
    return study


def read(path: Path) -> dict[str, Any]:
    """The fields of a study.toml. Raises StudyError for a file that is missing or not TOML."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise StudyError(f"study {path} does not exist") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as error:
        raise StudyError(f"study {path} is not TOML: {error}") from error


def plan(study: Study, shape: Shape) -> list[Planned]:
    """Each cell with its method and schedule on an input of this shape.

    Raises OptionError (RetentionError) for options and retentions that no method or schedule can meet.
    """
    return [_plan_cell(cell, study, shape) for cell in study.cells()]


def attempt(study: Study, shape: Shape) -> tuple[list[Planned], list[Measurement]]:
    """The cells that can be planned, and for each of the others the record of its refusal.

    Raises as `plan` does where none can be planned.
    """
    planned: list[Planned] = []
    refused: list[Measurement] = []
    for cell in study.cells():
        try:
            planned.append(_plan_cell(cell, study, shape))
        except TrioError as error:
            refused.append(Measurement(cell=cell, status="refused", reason=str(error)))
    if not planned:
        plan(study, shape)
    return planned, refused


def _plan_cell(cell: Cell, study: Study, shape: Shape) -> Planned:
    cls = methods.find(cell.method)
    given = {**study.options, **cell.options}
    if "retention" in given:
        raise OptionError(f"option retention = {given['retention']!r}: retentions are a study's own; use --retention")
    # A study's options go to the methods that have them: --option threshold=0.9 means nothing to random.
    options = {name: _typed(cls, name, value) for name, value in given.items() if name in cls.option_names()}
    known = {name for method in study.methods for name in methods.find(method).option_names()}
    if unknown := sorted(set(given) - known):
        raise OptionError(f"option {unknown[0]!r} belongs to none of the methods {', '.join(study.methods)}")
    # Nor do its layers to a method that acts before them, unless it is named a place that it does not have.
    layers = None if cls.stage is not Stage.DECODER and len(study.methods) > 1 else study.layers
    method = cls(retention=cell.retention, layers=options.pop("layers", layers), **options)
    return Planned(cell, method, method.schedule(shape.visual_tokens, shape.num_layers))


def _typed(cls: type[Method], name: str, value: Any) -> Any:
    """An option's value as the type that the method declares for it: 1 is a float where one is meant."""
    try:
        return TypeAdapter(get_type_hints(cls)[name]).validate_python(value)
    except ValidationError as error:
        raise OptionError(f"option {name} = {value!r} of {cls.name}: {error.errors()[0]['msg'].lower()}") from error
