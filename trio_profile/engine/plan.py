"""The plan of a study: its model and input, each cell with its method and schedule, and the refused cells."""

from dataclasses import dataclass
from typing import Any, get_type_hints

from pydantic import TypeAdapter, ValidationError

from trio_core import methods
from trio_core.errors import OptionError, TrioError, UnsupportedInput
from trio_core.methods.combined import Combined
from trio_core.methods.method import Method, Stage, blamed
from trio_core.methods.view import Signal
from trio_core.rules.cost import PromptSizes
from trio_core.rules.schedule import Schedule
from trio_profile.cost import formula
from trio_profile.inputs.catalogue import layer_shape
from trio_profile.inputs.workload import Workload, build
from trio_profile.judge.controls import CONTROL
from trio_profile.records.schema import Cell, Measurement, Retention, Shape, Study


@dataclass(frozen=True)
class PlannedCell:
    """A cell with its method, and with its schedule on the study's input."""

    cell: Cell
    method: Method
    schedule: Schedule

    def fastv_overhead_macs(self, shape: Shape, gamma: float) -> int:
        """Return F_ov of the paper: γ · Σ f(tokens that a stage looks at). It is 0 without a proxy loss."""
        if Signal.READOUT not in self.method.needs:
            return 0
        return formula.fastv_overhead(self.stage_tokens, shape.hidden, shape.intermediate, gamma) * shape.batch

    def fastv_macs(self, shape: Shape, gamma: float) -> int:
        """Return F_inf + F_ov of the paper, for the batch."""
        inference = formula.fastv_inference(self.schedule.tokens_by_layer, shape.hidden, shape.intermediate)
        return inference * shape.batch + self.fastv_overhead_macs(shape, gamma)

    def selection_macs(self, shape: Shape) -> int:
        """Return the MACs of all selections by the method's own formula, for the batch."""
        return shape.batch * self.method.selection_macs(layer_shape(shape), self.schedule, prompt_sizes(shape))

    def retention(self, realised: float) -> Retention:
        """Return all four retentions. realised: the share that really ran, averaged over the decoder's layers."""
        return Retention(
            nominal=self.cell.retention,
            layer_average=self.schedule.layer_average,
            final_layer=self.schedule.final_layer,
            realised=realised,
        )

    @property
    def stage_tokens(self) -> tuple[int, ...]:
        """The number of visual tokens that each stage looks at. A stage that drops no tokens is left out.

        The first stage of a method that acts at both places looks at no decoder layer, so it is left out too.
        """
        before = (self.schedule.visual_tokens, *self.schedule.budgets[:-1])
        stages = list(zip(before, self.schedule.budgets, strict=True))
        return tuple(n for n, kept in stages[1 if self.method.stage is Stage.BOTH else 0 :] if kept < n)


@dataclass(frozen=True)
class Plan:
    """A study with everything that its runner needs.

    workload: the model with its input and its questions.
    cells: the cells that can run, in the study's order.
    refused: the records of the cells that cannot run, with their reasons.
    keep_refusals: whether a refused cell becomes a record. Otherwise its error is raised.
    """

    study: Study
    workload: Workload
    cells: tuple[PlannedCell, ...]
    refused: tuple[Measurement, ...] = ()
    keep_refusals: bool = False


def deployable(plan: Plan) -> int:
    """Return how many of the cells that can run are of no control."""
    return sum(planned.method.reference.remark != CONTROL for planned in plan.cells)


def resolve(study: Study, *, keep_refusals: bool = False, weights: bool = True) -> Plan:
    """Load the study's model, make its input, and plan every cell.

    keep_refusals: whether a refused cell becomes a record. Otherwise its error is raised.
    weights: False builds a built-in model on the meta device.
    Raises StudyError if the model or the input cannot be used. Raises a TrioError if a method refuses its options or
    its retention; with `keep_refusals` only if no cell can run.
    """
    if not keep_refusals:
        for cell in study.cells():
            method_of(cell, study)  # before the model is loaded
    workload = build(study, weights=weights)
    cells, refused = _cells(study, workload, keep_refusals)
    return Plan(study, workload, cells, refused, keep_refusals)


def plan_cell(cell: Cell, study: Study, shape: Shape) -> PlannedCell:
    """Return a cell with its method and schedule.

    Raises OptionError if no method of the study has an option. Raises RetentionError if no schedule can reach the
    retention.
    """
    method = method_of(cell, study)
    with blamed(type(method)):
        widths = layer_shape(shape)
        schedule = method.schedule_in(widths, shape.visual_tokens, shape.num_layers)
        method.selection_macs(widths, schedule, prompt_sizes(shape))  # a fault is raised before a measurement
    return PlannedCell(cell, method, schedule)


def method_of(cell: Cell, study: Study) -> Method:
    """Return the method of a cell, with the options of the cell and of the study.

    Raises OptionError if no method of the study has an option, or if an option is out of its range.
    """
    cls = methods.find(cell.method)
    values = {**study.options, **cell.options}
    if "retention" in values:
        raise OptionError(f"option retention = {values['retention']!r}: give retentions with --retention")
    classes = [methods.find(method) for method in study.methods]
    if unknown := sorted(name for name in values if not any(owner.field_of(name) for owner in (cls, *classes))):
        raise OptionError(
            f"option {unknown[0]!r} belongs to none of the methods {', '.join(study.methods)}; "
            f"`trio-profile methods {study.methods[0]} --json` lists the options"
        )
    # Each method gets only the options that it has: `random` does not get --option threshold=0.9.
    options = {field: _typed(cls, field, value) for name, value in values.items() if (field := cls.field_of(name))}
    # In a study of several methods, --layers is only for those that act in the decoder.
    in_decoder = cls.stage is Stage.DECODER or issubclass(cls, Combined)
    layers = study.layers if in_decoder or len(study.methods) == 1 else None
    with blamed(cls):
        return cls(retention=cell.retention, layers=options.pop("layers", layers), **options)


def prompt_sizes(shape: Shape) -> PromptSizes:
    """Return the token counts of one sample."""
    return PromptSizes(shape.visual_tokens, shape.text_tokens, shape.text_after)


def _require_video(method: Method, workload: Workload) -> None:
    """Raise UnsupportedInput for a method for videos where the input or a question has none."""
    if method.media != "videos":
        return
    for fault, has_video in (
        ("the input has none: give --video FILE", "pixel_values_videos" in workload.inputs),
        ("the questions are about pictures: give others", all(question.is_of_video for question in workload.questions)),
    ):
        if not has_video:
            raise UnsupportedInput(f"method {method.name!r} is for videos, and {fault}, or choose another method")


def _cells(
    study: Study, workload: Workload, keep_refusals: bool
) -> tuple[tuple[PlannedCell, ...], tuple[Measurement, ...]]:
    """Return the cells that can run, and the records of those that cannot."""
    planned: list[PlannedCell] = []
    refused: list[Measurement] = []
    first: TrioError | None = None
    for cell in study.cells():
        try:
            cell_plan = plan_cell(cell, study, workload.shape)
            _require_video(cell_plan.method, workload)
            planned.append(cell_plan)
        except TrioError as error:
            if not keep_refusals:
                raise
            first = first or error
            refused.append(Measurement(cell=cell, status="refused", reason=str(error)))
    if first is not None and not planned:
        raise first
    return tuple(planned), tuple(refused)


def _typed(cls: type[Method], name: str, value: Any) -> Any:
    """Return an option's value in the type that the method declares: 1 becomes 1.0 for a float."""
    try:
        return TypeAdapter(get_type_hints(cls)[name]).validate_python(value)
    except ValidationError as error:
        raise OptionError(f"option {name} = {value!r} of {cls.name}: {error.errors()[0]['msg'].lower()}") from error
