"""Studies as tests ask for them."""

from typing import Any

from trio_profile.engine.plan import PlannedCell, plan_cell
from trio_profile.records.schema import Shape, Study
from trio_profile.study import asked


def make(verb: str = "sweep", **fields: Any) -> Study:
    """A checked study of a kind."""
    return asked.make(verb, fields)


def plan(study: Study, shape: Shape) -> list[PlannedCell]:
    """Every cell of a study on an input of this shape."""
    return [plan_cell(cell, study, shape) for cell in study.cells()]
