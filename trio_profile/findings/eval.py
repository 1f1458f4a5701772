"""The report of an evaluation: the scores of the pruned and the dense model, and the times of their answers."""

from collections.abc import Callable, Sequence

from trio_profile import units
from trio_profile.analysis.eval import Evaluation, Score, TaskSummary
from trio_profile.findings import entries
from trio_profile.findings.blocks import Axis, Block, Chart, Entry, Page, Report, Sentences, Series, Table, Tone
from trio_profile.findings.study_page import pixel_facts
from trio_profile.records.estimate import Measured, Milliseconds, Ratio, Tokens
from trio_profile.text import listed

_FOUND = ("better than dense", "worse than dense", "different from dense", "not measurably different from dense")


def report(document: Evaluation) -> Report:
    """The report of an evaluation."""
    study = document.study
    return Report(
        subject=study.methods[0],
        model=study.model,
        facts=[
            document.environment.device_name,
            study.dtype,
            f"{units.percent(study.retentions[0])} retention",
            f"lmms-eval {document.lmms_eval}",
            *pixel_facts(study),
            *([] if document.limit is None else [f"the first {units.number_of(document.limit, 'question')} of a task"]),
        ],
        pages=[page for build in PAGES if (page := build(document)).blocks],
        data=document.model_dump_json(),
    )


def scores_page(document: Evaluation) -> Page:
    """Each task's scores, dense beside pruned."""
    rows = [
        [Entry("" if number else task.task), Entry(_metric(score)), *_values(score)]
        for task in document.tasks
        for number, score in enumerate(task.scores)
    ]
    blocks: list[Block] = [Sentences("", _summary(document))]
    if any(_found(score) for task in document.tasks for score in task.scores):
        blocks.append(_differences(document))
    blocks.append(Table("Dense and pruned", ("task", "metric", "dense", "pruned", "difference"), rows, keys=2))
    return Page(
        "scores",
        "Scores",
        "Every score is the task's own, as lmms-eval computes it. The pruned and the dense model answer the same "
        "questions, so the difference is paired. It has a 95 % interval if the score is a mean over questions, with "
        "a number between 0 and 1 for each question.",
        blocks,
    )


def _summary(document: Evaluation) -> list[str]:
    """What the intervals of the differences say, and which scores have none."""
    judged = {outcome: list[str]() for outcome in _FOUND}
    without: list[str] = []
    for task in document.tasks:
        for score in task.scores:
            name = f"{task.task} ({_metric(score)})"
            if outcome := _found(score):
                judged[outcome].append(name)
            elif score.difference is not None:
                without.append(name)
    lines = [f"{listed(names)}: {outcome}." for outcome, names in judged.items() if names]
    if without:
        lines.append(f"{listed(without)}: the difference has no interval, so it may be chance.")
    if not any(score.dense is not None for task in document.tasks for score in task.scores):
        lines.append("The dense model was not asked, so there is nothing to compare with.")
    return lines


def _found(score: Score) -> str:
    """What the interval of a score's difference says; empty without an interval."""
    if score.ci95 is None or score.difference is None:
        return ""
    low, high = score.ci95
    if low <= 0 <= high:
        return "not measurably different from dense"
    if score.higher_is_better is None:
        return "different from dense"
    return "better than dense" if (score.difference > 0) == score.higher_is_better else "worse than dense"


def _metric(score: Score) -> str:
    return score.metric if score.filter == "none" else f"{score.metric}, {score.filter}"


def _values(score: Score) -> list[Entry]:
    """The fields of one score: dense, pruned and their difference."""
    tones: dict[str, Tone] = {"better than dense": "gain", "worse than dense": "loss"}
    dense = entries.NOTHING if score.dense is None else Entry(units.task_score(score.dense))
    difference = entries.NOTHING
    if score.difference is not None:
        difference = Entry(units.task_score_difference(score.difference, score.ci95), tone=tones.get(_found(score), ""))
    return [dense, Entry(units.task_score(score.pruned)), difference]


def _differences(document: Evaluation) -> Chart:
    """The differences that have an interval, one beside the other."""
    shown = [
        (f"{task.task} {_metric(score)}", score.difference, score.ci95)
        for task in document.tasks
        for score in task.scores
        if score.difference is not None and score.ci95 is not None
    ]
    names = [name for name, _, _ in shown]
    return Chart(
        id="differences",
        caption="Differences, pruned less dense",
        label="The difference of each score with its interval. The table has the numbers.",
        x=Axis("", names=names),
        y=Axis("Pruned less dense", digits=4),
        series=[
            Series(
                "difference",
                x=list(range(len(shown))),
                y=[difference for _, difference, _ in shown],
                low=[ci95[0] for *_, ci95 in shown],
                high=[ci95[1] for *_, ci95 in shown],
                text=[f"{name}\n{units.task_score_difference(difference, ci95)}" for name, difference, ci95 in shown],
                band=False,
                colour=0,
                line=None,
                size=9,
                legend=False,
            )
        ],
        levels=[0],
    )


def times_page(document: Evaluation) -> Page:
    """What the answers took, and how many are the same."""
    timed = [task for task in document.tasks if task.prefill_ms is not None]
    blocks: list[Block] = []
    if timed:
        paired = any(task.prefill_speedup is not None for task in timed)
        columns = ("task", "questions", "retention", "same answer", "prefill", "total")
        caption = "Speed-up, dense over pruned" if paired else "Time of the pruned model alone"
        blocks.append(Table(caption, columns, [_times(task) for task in timed]))
        blocks.append(_all_times(timed))
    return Page(
        "times",
        "Times of the same answers",
        "A question counts here if it has a picture. Both models answer it one after the other, in an order that is "
        "drawn anew for each question. “total” is the time of the whole answer. A longer answer takes more time, so "
        "the two totals may belong to answers of different length. “same answer” is the share of questions to which "
        "both models give the same answer.",
        blocks,
    )


def _times(task: TaskSummary) -> list[Entry]:
    """A task's speed-ups, or its times where the dense model was not asked."""
    return [
        Entry(task.task),
        Entry(units.exact(task.questions)),
        entries.NOTHING if task.retention is None else Entry(units.percent(task.retention)),
        entries.short_share(task.same_answer),
        *(
            _ratio_or_time(*pair)
            for pair in ((task.prefill_speedup, task.prefill_ms), (task.total_speedup, task.total_ms))
        ),
    ]


def _ratio_or_time(ratio: Ratio | None, time: Milliseconds | None) -> Entry:
    return entries.milliseconds(time) if ratio is None else entries.speedup(ratio)


def _all_times(timed: Sequence[TaskSummary]) -> Table:
    """The medians of both models: tokens of an answer, prefill, first token and the whole answer."""
    pairs = (("dense_tokens", "tokens"), ("dense_prefill_ms", "prefill_ms"), ("dense_ttft_ms", "ttft_ms"))
    fields = [name for pair in (*pairs, ("dense_total_ms", "total_ms")) for name in pair]
    groups = (("", 1), ("tokens of an answer", 2), ("prefill", 2), ("first token", 2), ("whole answer", 2))
    rows = [[Entry(task.task), *(_median(getattr(task, name)) for name in fields)] for task in timed]
    return Table("Medians of both models", ("task", *4 * ("dense", "pruned")), rows, groups=groups, detail=True)


def _median(found: Measured | None) -> Entry:
    return Entry(units.count(found.value)) if isinstance(found, Tokens) else entries.milliseconds(found)


PAGES: tuple[Callable[[Evaluation], Page], ...] = (scores_page, times_page)
