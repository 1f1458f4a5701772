"""The dry run of an evaluation: its tasks, and its cells with their work."""

from pathlib import Path

from trio_profile.errors import StudyError
from trio_profile.inputs import catalogue
from trio_profile.inputs.environment import collect
from trio_profile.judge.planned import PlannedTask, Preview
from trio_profile.kinds.evaluation.suites import chosen
from trio_profile.progress import Watch, ignore
from trio_profile.records.schema import Study
from trio_profile.study.preview import preview


def preview_tasks(study: Study, watch: Watch = ignore) -> Preview:
    """Return the tasks that a study would ask, and the cells with their work.

    A model of the hub may be out of reach. Then the work of the cells is left out, with the reason. The errors are
    those that the study itself raises before it measures.
    """
    suite = chosen(study)
    try:
        document = preview(study, watch)
    except StudyError as error:
        if study.model in catalogue.models() or Path(study.model).is_dir():
            raise
        document = Preview(environment=collect("cpu"), study=study, shape=None, cells=(), seconds_reason=str(error))
    tasks = {task: PlannedTask(task=task) for task in study.tasks}
    for column in suite.columns() if suite else ():
        if suite and column.task in tasks:
            needs = suite.suite.benchmarks[column.name].needs
            planned = PlannedTask(task=column.task, benchmark=column.name, needs=needs, differs=column.differs)
            tasks[column.task] = planned
    return document.model_copy(update={"tasks": tuple(tasks.values()), "setting": suite.table.setting if suite else ""})
