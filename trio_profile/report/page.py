"""The parts that the reports of several kinds share: a banner, what was asked, and where it was measured."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import Any

from trio_profile import units
from trio_profile.inputs.trained import WARNINGS
from trio_profile.judge.evidence import random_weights
from trio_profile.records.schema import Record, Session, Study
from trio_profile.report.blocks import Entry, Page, Report, Table, Terms
from trio_profile.report.definitions import environment_terms
from trio_profile.text import as_text, capital

_LIBRARIES = ("python", "torch", "transformers", "fvcore", "cuda", "driver")
_VERSIONS: dict[str, Callable[[Session], str | None]] = {
    "trio-profile": attrgetter("version"),
    **{name: attrgetter(f"environment.{name}") for name in _LIBRARIES},
}
"""The versions of a session, by their names."""


def pixel_facts(study: Study) -> list[str]:
    """The facts of a heading on the pixels of a picture. Empty if the checkpoint's processor decides them."""
    return [] if study.pixels is None else [f"pictures of {units.span(*study.pixels)} pixels"]


def measured_facts(document: Any) -> list[str]:
    """The facts of a heading on a measured study: device, number type, attention, batch and pixels."""
    study, device = document.study, document.environment.device_name
    return [device, study.dtype, f"{study.attention} attention", f"batch {study.batch}", *pixel_facts(study)]


def notes(cells: Iterable[tuple[str, Sequence[str]]]) -> list[str]:
    """The notes on how prefills ran, each sentence once. cells: the name of each, and its notes."""
    return list(dict.fromkeys(f"{name}: {note}." for name, texts in cells for note in texts))


def with_banner(report: Report, model: str, sessions: Sequence[Session]) -> Report:
    """The report with what readers must know first of a built-in model: that it is a toy, or has random weights."""
    return replace(report, banner=" ".join(filter(None, [report.banner, banner(model, sessions)])))


def banner(model: str, sessions: Sequence[Session]) -> str:
    """The warning about a built-in model: that it is a toy, or that its weights are random. Else empty."""
    if model in WARNINGS:
        return WARNINGS[model]
    random = random_weights(model, sessions)
    return f"{capital(random)}: times and work are those of its size." if random else ""


def unfinished(left: int, planned: int, name: str) -> str:
    """The banner of an unfinished study: how many of the planned parts of this name are left. Empty if none is."""
    if not left:
        return ""
    parts = f"{units.exact(left)} of {units.number_of(planned, name)}"
    return f"This study is unfinished. Not measured yet: {parts}. The same command goes on."


def study_page(document: Any) -> Page:
    """The study as it was asked, and the environment and the sessions that measured it."""
    return Page(
        "study",
        "Study and environment",
        "Times hold for this machine and these versions. Exact counts hold wherever the same model runs.",
        [
            Terms("Asked", fields_of(document.study), detail=True),
            Terms("Measured on", environment_terms(document.environment), detail=True),
            sessions_table(document.sessions),
        ],
        folded="Show what was asked, and where it was measured",
    )


def fields_of(study: Record) -> list[tuple[str, str]]:
    """The fields of a study that say something, as text."""
    fields = {name: value for name, value in dict(study).items() if name != "verb"}
    return [(name.replace("_", " "), text) for name, value in fields.items() if (text := as_text(value))]


def sessions_table(sessions: Sequence[Session]) -> Table:
    """Each opening of the study: its start, command, host and commit, and the versions that differ."""
    differing = {name: of for name, of in _VERSIONS.items() if len({of(session) for session in sessions}) > 1}
    texts: dict[str, Callable[[Session], str | None]] = {
        "session": lambda session: units.exact(sessions.index(session) + 1),
        "started": lambda session: session.started and units.moment(session.started),
        "host": attrgetter("environment.hostname"),
        "commit": attrgetter("environment.commit"),
        **differing,
        "engine": attrgetter("engine"),
        "command": attrgetter("command"),
    }
    rows = [[Entry(text(session) or "–") for text in texts.values()] for session in sessions]
    return Table("Sessions", list(texts), rows, prose=True, detail=True)
