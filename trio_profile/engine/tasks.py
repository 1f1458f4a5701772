"""What a measuring process does: it counts a share of a study, times a study, or works for a worker.

A request and its answers are JSON. An answer has the `session`, some `records` of the log, or the `step` that is done
now. `load` runs in the server, so that the processes that it forks find the model loaded.
"""

from time import perf_counter
from typing import Any

import torch

from trio_profile.engine import measuring, worker
from trio_profile.engine.board import Assignment
from trio_profile.engine.measuring import Allowance, Opened, Share, Timer
from trio_profile.engine.plan import Plan, resolve
from trio_profile.engine.processes import Say
from trio_profile.records.record import Record
from trio_profile.records.schema import Study

SEND_SECONDS = 5.0
"""Rounds are sent together, so that the process that writes them seldom disturbs the one that measures."""


class _Loaded:
    """The study that the server has loaded; None before."""

    plan: Plan | None = None


def load(request: dict[str, Any]) -> None:
    """Load the study's model into this process, once."""
    if _Loaded.plan is None:
        study = Study.model_validate(request["study"])
        _Loaded.plan = resolve(study, keep_refusals=request["keep_refusals"])


def count(request: dict[str, Any], say: Say) -> None:
    """Count a share of a study. The first answer has the session, and whether the models answer questions.

    request: `study`, `command`, `keep_refusals`; the fields of `Share`; `one_thread`, whether it shares the cores with
        other processes that count.
    """
    opened = _open(request)
    say({"session": opened.session.model_dump(mode="json"), "asks": measuring.asks(opened)})
    if request["one_thread"]:
        torch.set_num_threads(1)
    for part in measuring.count_share(opened, Share(**request["share"]), _report(say)):
        say({"records": [part.model_dump(mode="json")]})


def time(request: dict[str, Any], say: Say) -> None:
    """Time the cells of a study, in one session. The first answer has the session.

    request: `study`, `command`, `keep_refusals`; `cells`, the ids of those that are timed; `allowance`; `number` of the
        session.
    """
    opened = _open(request)
    say({"session": opened.session.model_dump(mode="json")})
    study = opened.plan.study
    timer = Timer(
        opened,
        measuring.blocks_of(opened.plan, set(request["cells"])),
        f"{study.seed} {request['number']}",
        report=_report(say),
    )
    kept: list[Record] = []
    sent = perf_counter()
    try:
        for record in timer.measure(Allowance(**request["allowance"])):
            kept.append(record)
            if perf_counter() - sent > SEND_SECONDS:
                _send(kept, say)
                sent = perf_counter()
    finally:
        _send(kept, say)


def work(request: dict[str, Any], say: Say) -> None:
    """Measure the runs of a study that several workers measure, as one process of a worker."""
    worker.work(Assignment.model_validate(request), _report(say), say)


def _open(request: dict[str, Any]) -> Opened:
    study = Study.model_validate(request["study"])
    return measuring.open_process(study, request["command"], keep_refusals=request["keep_refusals"], plan=_Loaded.plan)


def _send(records: list[Record], say: Say) -> None:
    if records:
        say({"records": [record.model_dump(mode="json", exclude_none=True) for record in records]})
        records.clear()


def _report(say: Say) -> measuring.Report:
    return lambda text, done, total: say({"step": [text, done, total]})
