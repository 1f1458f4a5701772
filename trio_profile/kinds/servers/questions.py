"""Questions with known answers, asked of both servers: whether pruning keeps the answers that it makes faster."""

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from trio_profile.errors import StudyError
from trio_profile.inputs.pocket.grammar import exam
from trio_profile.inputs.questions import FEWEST, Question, chance_of, enough, judged_by, pictures_of, read
from trio_profile.judge.accuracy import accuracy, by_question, difference
from trio_profile.kinds.servers.document import ServedAnswers
from trio_profile.kinds.servers.requests import ARMS, Arm, RequestLog, RequestStore, ServedAnswer
from trio_profile.kinds.servers.study import EndpointStudy
from trio_profile.kinds.servers.traffic.pictures import as_picture
from trio_profile.progress import Step, Watch, ignore

if TYPE_CHECKING:  # a report needs no client
    from trio_profile.kinds.servers.traffic.opening import ArmServer

AT_ONCE = 4
"""Each server answers this many questions at a time. Their times are not measured."""


def questions_of(study: EndpointStudy) -> list[Question]:
    """Return the questions of the study's file, or else of the model `pocket`; empty if none are asked for.

    Raises StudyError if the file cannot be used, if it has no answers, or if there are too few for an interval.
    """
    if study.questions is None:
        questions, source = exam(study.asked or 0), "--asked"
    else:
        questions, source = read(Path(study.questions))[: study.asked], study.questions
    if questions and questions[0].answer is None:
        raise StudyError(f"questions {source} have no answers, so nothing can be scored; give each one its answer")
    enough(len(questions), source, answered=bool(questions))
    return judged_by(study.match, questions)


async def ask_questions(
    study: EndpointStudy,
    store: RequestStore,
    arms: "Mapping[Arm, ArmServer]",
    questions: Sequence[Question],
    watch: Watch = ignore,
) -> None:
    """Ask both servers the questions that are not answered yet, and keep the answers. A failed request is kept too."""
    left, pictures = unanswered(store.contents, questions), pictures_of(questions)
    for start in range(0, len(left), AT_ONCE):
        watch(Step(f"question {left[start] + 1} of {len(questions)}"))
        numbers = left[start : start + AT_ONCE]
        bodies = {n: as_picture(n, questions[n].picture(), questions[n].text, study.frames) for n in numbers}
        pairs: list[tuple[int, Arm]] = [(number, arm) for number in numbers for arm in ARMS]
        replies = await asyncio.gather(*(arms[arm].server.ask(arms[arm].body(bodies[n])) for n, arm in pairs))
        store.append(
            *(
                ServedAnswer(
                    question=number,
                    picture=pictures[number],
                    arm=arm,
                    text=reply.stream.text,
                    known=questions[number].answer or "",
                    kind=questions[number].kind,
                    right=reply.error is None and questions[number].is_answered_by(reply.stream.text),
                    error=reply.error,
                )
                for (number, arm), reply in zip(pairs, replies, strict=True)
            )
        )


def unanswered(log: RequestLog, questions: Sequence[Question]) -> list[int]:
    """Return the numbers of the questions that a server has not answered."""
    pairs = [log.answers.get(number, {}) for number in range(len(questions))]
    return [n for n, pair in enumerate(pairs) if len(pair) < len(ARMS) or any(reply.error for reply in pair.values())]


def answers_of(log: RequestLog) -> ServedAnswers | None:
    """Return the right answers of both servers; None if too few questions were asked for an interval.

    A question that a server did not answer counts as wrong there.
    """
    pairs = [pair for pair in log.answers.values() if len(pair) == len(ARMS)]
    if len(pairs) < FEWEST:
        return None
    pictures = [pair["dense"].picture for pair in pairs]
    dense, pruned = (by_question([pair[arm].right for pair in pairs], len(pairs)) for arm in ARMS)
    return ServedAnswers(
        dense=accuracy(dense, pictures),
        pruned=accuracy(pruned, pictures),
        difference=difference(pruned, dense, pictures),
        chance=chance_of([(pair["dense"].kind, pair["dense"].known) for pair in pairs]),
    )
