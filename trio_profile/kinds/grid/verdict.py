"""The conclusion of a sweep or a comparison: its cells as candidates, what they can show, and what comes next."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import ceil, log
from typing import Any

from trio_profile import units
from trio_profile.judge.accuracy import correct_shares, lost_answers, paired_difference
from trio_profile.judge.claims import of_effects
from trio_profile.judge.controls import CONTROL, licence
from trio_profile.judge.deploy import TOLERATED, Candidate, Words, decide
from trio_profile.judge.doubts import TRANSPARENT, Doubt, cell_name
from trio_profile.judge.evidence import Evidence, random_weights, why_no_answers
from trio_profile.judge.reach import level_of_loss, needed, next_number
from trio_profile.judge.sureness import ONE_PROCESS, Weakness
from trio_profile.judge.times import seconds_again, speedup_centres
from trio_profile.kinds.grid.document import summarise_dense
from trio_profile.records.conclusion import Conclusion
from trio_profile.records.contents import Contents
from trio_profile.records.estimate import Difference, Ratio
from trio_profile.records.schema import Cell, Dense, Measurement, first_command
from trio_profile.stats.intervals import joint, machine_spread, quotient_interval, widened
from trio_profile.text import with_option

LONGEST = 30
"""A study that must be so many times as long is no advice."""


def conclude(contents: Contents, doubts: Sequence[Doubt]) -> tuple[Conclusion, Cell | None]:
    """Return the conclusion of a study of cells, and the cell that it is about."""
    candidates = _candidates(contents, doubts)
    words = Words("cell", "the prefill is {} times as fast", next=_Next(contents).step)
    why_none = no_answers(contents)
    conclusion, best = decide(list(candidates.values()), Evidence(answers=why_none), words)
    if not why_none and (worse := _worse_than_control(contents, best)):
        conclusion = conclusion.model_copy(update={"sentence": f"{conclusion.sentence} {worse}"})
    if best is None:
        return conclusion, None
    # Cells whose retentions reach the same tokens have one name. Without answers, `best` is a copy of the candidate.
    alike = [name for name, other in candidates.items() if (other.name, other.gain) == (best.name, best.gain)]
    return conclusion, contents.cells[alike[0]].cell


def _worse_than_control(contents: Contents, best: Candidate | None) -> str:
    """Return where the one method of a study answers worse than a control at the same retention. Empty if nowhere.

    best: of several methods, only this cell is compared.
    """
    own = _deployable(contents)
    if len({cell.cell.method for cell in own}) != 1:
        own = [cell for cell in own if best is not None and _name(cell) == best.name]
    pairs = [
        (change, cell, control)
        for cell, control in product(own, contents.done)
        if control.remark == CONTROL and control.cell.retention == cell.cell.retention
        if (change := paired_difference(cell, control, contents.dense)) is not None
    ]
    worse = [pair for pair in pairs if widened(pair[0].ci95, len(pairs), pair[0].samples)[1] < 0]
    if not worse:
        return ""
    change, cell, control = min(worse, key=lambda pair: pair[0].value)
    right, other = (_right(answered, contents.dense, change.samples) for answered in (cell, control))
    return f"{_name(cell)} is worse than {control.cell.method}: {right} right against {other}."


def _right(cell: Measurement, dense: Dense | None, questions: int) -> str:
    """The share of right answers to the first questions, which another cell answered too."""
    shares = correct_shares(cell, dense)
    assert shares is not None
    return units.percent(float(shares[:questions].mean()))


def undecided(contents: Contents) -> list[str]:
    """Return the ids of the cells that may be chosen, once more questions have shown what they lose.

    Those that have lost least come first, and of them the fastest. It is empty if a cell is shown to pay, and if the
    study says nothing of answers.
    """
    candidates = {} if no_answers(contents) else _candidates(contents, ())
    if any(candidate.pays for candidate in candidates.values()):
        return []
    may = [
        (max(candidate.lost, 0.0), -candidate.gain[0], name)
        for name, candidate in candidates.items()
        if candidate.may_pay and candidate.gain[0] > 1 and candidate.loss is not None
    ]
    return [name for *_, name in sorted(may)]


def next_questions(contents: Contents) -> int | None:
    """Return up to how many questions `undecided` cells are asked next; None if no more are asked."""
    counts = [number for number in contents.question_counts if number]
    return next_number(counts, len(_deployable(contents)), TOLERATED) if counts else None


def _deployable(contents: Contents) -> list[Measurement]:
    """Return the finished cells that are no controls."""
    return [cell for cell in contents.done if cell.remark != CONTROL]


def _candidates(contents: Contents, doubts: Sequence[Doubt]) -> dict[str, Candidate]:
    """Return what could be deployed, by the id of the cell. All intervals hold together."""
    cells = _deployable(contents)
    study, dense = contents.study, contents.dense
    level, of_loss = joint(len(cells)), level_of_loss(len(cells))
    machine = machine_spread(study.device)
    # Of all cells, as in the table: what a control shares in its spread belongs to the interval of each cell.
    prefills, wholes = (speedup_centres(contents.done, time, machine) for time in ("prefill_ms", "total_ms"))
    candidates: dict[str, Candidate] = {}
    for cell in cells:
        if (prefill := prefills.get(cell.cell.id)) is None:
            continue
        whole = wholes.get(cell.cell.id) if study.new_tokens > 1 else None
        lost, loss = lost_answers(cell, dense, of_loss)
        candidates[cell.cell.id] = Candidate(
            name=_name(cell),
            gain=prefill.interval(level),
            whole=None if whole is None else whole.interval(level),
            loss=loss,
            lost=lost,
            weaknesses=tuple(_weaknesses(cell, doubts)),
        )
    return candidates


def conclude_ablation(
    contents: Contents,
    doubts: Sequence[Doubt],
    answers: Mapping[str, Difference],
    speeds: Mapping[str, tuple[Ratio, Ratio]],
) -> Conclusion:
    """Return whether variants differ from the unchanged method.

    answers: the difference of right answers to the unchanged method, by the name of the variant.
    speeds: the speed-ups of the variant and of the unchanged method.
    """
    count = len(answers) + len(speeds)
    changes = {name: widened(change.ci95, count, change.samples) for name, change in answers.items()}
    factors = {
        name: widened(
            quotient_interval((default.value, own.value), (default.ci95, own.ci95)),
            count,
            min(default.samples, own.samples),
            of_ratio=True,
        )
        for name, (own, default) in speeds.items()
    }
    weak = dict.fromkeys(weakness for cell in contents.done for weakness in _weaknesses(cell, doubts))
    conclusion = of_effects(changes, factors, no_answers(contents), list(weak))
    return conclusion.model_copy(update=_Next(contents).again() if conclusion.sureness == "low" else {})


def no_answers(contents: Contents) -> str:
    """Return why a study says nothing of answers. Empty if it does."""
    dense = contents.dense
    accuracy = None if dense is None else summarise_dense(dense).accuracy
    random = random_weights(contents.study.model, contents.sessions)
    return why_no_answers(accuracy, None if dense is None else dense.chance, random)


def _name(cell: Measurement) -> str:
    reached = cell.retention.realised if cell.retention else cell.cell.retention
    return f"{cell_name(cell.cell.model_copy(update={'retention': reached}))}{licence(cell.remark)}"


def _weaknesses(cell: Measurement, doubts: Sequence[Doubt]) -> Iterator[Weakness]:
    """Yield what makes the times of a cell unsure: that one process measured it, and the doubts in words."""
    if len(cell.timings) < 2:
        yield Weakness("low", ONE_PROCESS)
    for doubt in doubts:
        is_told = doubt.kind == "sessions" and doubt.cell is None  # that one process measured some cells
        if not is_told and (doubt.cell is None or doubt.cell.id == cell.cell.id):
            yield Weakness("medium" if doubt.kind == TRANSPARENT else "low", doubt.sentence)


@dataclass(frozen=True)
class _Next:
    """The next command of a study, and its time."""

    contents: Contents

    def step(self, word: str, best: Candidate) -> dict[str, Any]:
        """Return the fields of the command that would decide, or make the word surer. Empty if there is none."""
        study, command = self.contents.study, first_command(self.contents.sessions)
        if not command:
            return {}
        if best.is_doubted:
            return self.again()
        if word == "do not":
            return {}
        unknown = best.gain if best.gain[0] <= 1 or best.whole is None or best.whole[0] > 1 else best.whole
        if unknown[0] <= 1:
            factor = _rounds(unknown)
            return self._longer(with_option(command, "seconds", str(ceil(study.seconds * factor))), factor - 1)
        questions = len(self.contents.dense.correct) if self.contents.dense else 0
        if best.loss is not None and best.loss[1] > TOLERATED and best.lost < TOLERATED:
            factor = ((best.loss[1] - best.lost) / (TOLERATED - best.lost)) ** 2
            if best.lost <= 0:  # then the interval shrinks with the number of questions, not with its root
                factor = needed(len(_deployable(self.contents)), TOLERATED) / questions
            factor = max(factor, 2.0)
            if factor > LONGEST:
                return {}
            number = ceil(questions * factor)
            more = with_option(self._elsewhere(), "asked", str(number))
            return {"next": more, "next_seconds": seconds_again(self.contents, number)}
        is_random = random_weights(study.model, self.contents.sessions)
        has_none = best.loss is None and not is_random
        return {"next": with_option(self._elsewhere(), "questions", "FILE")} if has_none else {}

    def again(self) -> dict[str, Any]:
        """Return the fields of the command that measures the study again, elsewhere and in several processes."""
        if not first_command(self.contents.sessions):
            return {}
        return {"next": self._elsewhere(), "next_seconds": seconds_again(self.contents)}

    def _elsewhere(self) -> str:
        command = first_command(self.contents.sessions)
        several = with_option(command, "processes", "") if self.contents.study.processes == 1 else command
        return with_option(several, "out", "ANOTHER")

    def _longer(self, command: str, factor: float) -> dict[str, Any]:
        """Return the fields of a command that goes on timing. factor: how many times the rounds so far are added."""
        seconds = factor * sum(measured.seconds for measured in self.contents.rounds)
        return {"next": command, "next_seconds": seconds} if factor <= LONGEST else {}


def _rounds(gain: tuple[float, float]) -> float:
    """Return how many times as many rounds would show on which side of 1 a speed-up lies."""
    low, high = map(log, gain)
    middle = abs(low + high) / 2
    return 1.2 * ((high - low) / 2 / middle) ** 2 if middle else float("inf")
