"""The kind `eval`."""

from trio_profile.records.files import ANSWERS, DOCUMENTS
from trio_profile.study.kind import MODEL, Kind

KIND = Kind(
    name="eval",
    group="Measure",
    place=3,
    summary="Score several methods and the dense model on tasks of lmms-eval, and time their answers.\n\n"
    "All answer a question before the next one is asked. Answered questions are not asked again. "
    "A method that cannot run is listed with its reason. This needs the extra `eval`.",
    options=(
        *(*MODEL, "methods", "retentions", "gamma"),
        *("suite", "tasks", "task_path", "limit", "dense"),
    ),
    fields=("ablations",),
    runner="trio_profile.kinds.evaluation.run:run",
    document="trio_profile.kinds.evaluation.document:Evaluation",
    report="trio_profile.kinds.evaluation.report:report",
    conclude="trio_profile.kinds.evaluation.document:conclude",
    file=DOCUMENTS["evaluation"],
    unfinished=ANSWERS,
    rows="trio_profile.kinds.evaluation.document:task_rows",
    extra="eval",
    instead="trio_profile.kinds.evaluation.ablations:on_tasks",
    instead_of="ablate",
    defaults={"methods": (), "retentions": ()},
    empty_words={
        "methods": "the suite's; without a suite trio",
        "retentions": "the suite's; without a suite 0.333",
    },
    prepare="trio_profile.kinds.evaluation.suites:prepare",
    preview="trio_profile.kinds.evaluation.preview:preview_tasks",
    keep_refusals=True,
)
