"""The dry run of `eval`: the tasks and what they need, and the cells. lmms-eval and a network are not needed."""

from pathlib import Path

from trio_profile.analysis.preview import PlannedTask, Preview
from trio_profile.errors import StudyError
from trio_profile.inputs import catalogue
from trio_profile.inputs.environment import collect
from trio_profile.progress import Watch, ignore
from trio_profile.records.schema import Study
from trio_profile.studies import preview as cells
from trio_profile.studies.suites import Chosen, chosen


def preview(study: Study, watch: Watch = ignore) -> Preview:
    """Return the tasks that a study would ask, and the cells with their work.

    A model of the hub may be out of reach. Then the work of the cells is left out, with the reason. The errors are
    those that the study itself raises before it measures.
    """
    suite = chosen(study)
    try:
        found = cells.preview(study, watch)
    except StudyError as error:
        if study.model in catalogue.models() or Path(study.model).is_dir():
            raise
        found = Preview(environment=collect("cpu"), study=study, shape=None, cells=(), seconds_reason=str(error))
    setting = suite.table.setting if suite else ""
    return found.model_copy(update={"tasks": _tasks(study, suite), "setting": setting})


def _tasks(study: Study, suite: Chosen | None) -> tuple[PlannedTask, ...]:
    """Return the tasks, each with what the suite says of it."""
    known = {column.task: column for column in suite.columns()} if suite else {}
    return tuple(
        PlannedTask(
            task=task,
            benchmark=known[task].name,
            needs=suite.suite.benchmarks[known[task].name].needs,
            differs=known[task].differs,
        )
        if suite and task in known
        else PlannedTask(task=task)
        for task in dict.fromkeys(study.tasks)
    )
