"""The document of `trio-profile report A B …`: the cells of several studies side by side, and how the studies differ.

The dense model is the common reference of each study: a speed-up is a ratio of times that were measured in turn. So the
speed-ups of two studies can be divided by each other, even if the studies ran on two machines.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import Any, Literal, TypeVar

from pydantic import Field

from trio_profile.analysis.cells import CellSummary, DenseSummary
from trio_profile.analysis.compare import Comparison
from trio_profile.analysis.doubts import Doubt
from trio_profile.analysis.recommendation import Recommendation
from trio_profile.analysis.sweep import SweepDocument
from trio_profile.errors import StudyError
from trio_profile.records.documents import Document
from trio_profile.records.estimate import Difference, Estimate, SpeedupRatio
from trio_profile.records.schema import Environment, Record, Session, Study
from trio_profile.stats.estimates import difference_between, quotient_of
from trio_profile.text import as_text

Compared = TypeVar("Compared", bound=Estimate)
Several = Sequence[SweepDocument | Comparison]
About = Literal["machine", "versions", "code", "model", "input", "options", "files"]
"""The subject of a difference between studies."""

EXACT = ("counted_macs", "selection_macs", "fastv_macs", "kv_bytes", "budgets")
"""The exact quantities that are compared."""
_FIELDS: dict[About, tuple[str, ...]] = {
    "machine": ("device", "device_name", "cpu", "cpu_threads", "hostname", "system"),
    "versions": ("python", "torch", "transformers", "fvcore", "cuda", "driver", "sdpa", "wait_policy", "allocator"),
    "model": ("model", "dtype", "attention"),
    "input": (
        *("image", "video", "frames", "fps", "prompt", "pixels", "questions", "fidelity_inputs"),
        *("text_tokens", "new_tokens", "batch", "seed"),
    ),
    "options": ("layers", "options", "gamma"),
}
_OF_THE_DENSE_MODEL = ("visual_tokens", "text_tokens", "num_layers")


class StudyDifference(Record):
    """One thing in which the studies differ.

    about: what it belongs to.
    name: name of the field.
    values: its value in each study, as text; None where it is not known.
    """

    about: About
    name: str
    values: tuple[str | None, ...]


class Side(Record):
    """One of the studies.

    name: of its directory.
    environment: the machine of its first session.
    study: what was asked.
    dense: the dense model; None if it is not measured.
    code: the commits that measured it, or the versions of trio-profile outside a checkout.
    sessions: how many of the document's sessions are its own. The first study has the first ones, and so on.
    recommendation: the cell to deploy, if any.
    doubts: the reasons not to trust numbers of this study.
    """

    name: str
    environment: Environment
    study: Study
    dense: DenseSummary | None
    code: tuple[str, ...]
    sessions: int
    recommendation: Recommendation
    doubts: tuple[Doubt, ...] = ()


class SideCell(Record):
    """One method at one nominal retention. Each list has an entry for each study.

    cells: None where a study does not have the cell.
    prefill_ratios, total_ratios: the speed-up divided by that of the first study; None for the first study, and where
        one of the two studies has no times.
    accuracy_differences: the accuracy minus that of the first study, as of two independent samples of questions. None
        where another rule judged the answers.
    unequal: the exact quantities that are not the same in all studies that have the cell.
    """

    method: str
    nominal_retention: float
    cells: tuple[CellSummary | None, ...]
    prefill_ratios: tuple[SpeedupRatio | None, ...]
    total_ratios: tuple[SpeedupRatio | None, ...]
    accuracy_differences: tuple[Difference | None, ...]
    unequal: tuple[str, ...] = ()


class SideBySide(Document):
    """The output of `trio-profile report A B … --json`.

    sessions: of all studies, in their order.
    sides: the studies, in the order in which they were named.
    unlike: in what they differ.
    cells: all cells of all studies, by method and retention.
    report: path of the page.
    """

    sides: tuple[Side, ...]
    unlike: tuple[StudyDifference, ...] = ()
    cells: tuple[SideCell, ...] = Field(default=())
    report: str | None = None

    @property
    def methods(self) -> list[str]:
        """The methods, in the order of the studies."""
        return list(dict.fromkeys(cell.method for cell in self.cells))

    def sessions_of(self, number: int) -> tuple[Session, ...]:
        """Return the sessions of a study. number: of the study, from 0."""
        begin = sum(side.sessions for side in self.sides[:number])
        return self.sessions[begin : begin + self.sides[number].sessions]


def side_by_side(names: Sequence[str], documents: Several) -> SideBySide:
    """Put the documents of two or more studies side by side.

    names: of the studies, all different.
    Raises StudyError for fewer than two studies.
    """
    if len(documents) < 2:
        raise StudyError(f"{len(documents)} study is nothing to compare: name two or more directories")
    sides = tuple(
        Side(
            name=name,
            environment=document.environment,
            study=document.study,
            dense=document.dense,
            code=_code(document.sessions),
            sessions=len(document.sessions),
            recommendation=document.recommendation,
            doubts=tuple(document.doubts),
        )
        for name, document in zip(names, documents, strict=True)
    )
    return SideBySide(
        sessions=tuple(session for document in documents for session in document.sessions),
        sides=sides,
        unlike=tuple(chain(_unlike_fields(sides), _unlike_files(sides, documents))),
        cells=tuple(_cells(documents, [_rule_of(side) for side in sides])),
    )


# What is unlike


def _unlike_fields(sides: Sequence[Side]) -> Iterator[StudyDifference]:
    for about, names in _FIELDS.items():
        for name in names:
            of_study = name in Study.model_fields
            yield from _unlike(about, name, [getattr(s.study if of_study else s.environment, name) for s in sides])
    if None not in (rules := [_rule_of(side) for side in sides]):
        yield from _unlike("input", "match", rules)
    yield from _unlike("code", "commit", [", ".join(side.code) for side in sides])
    for name in _OF_THE_DENSE_MODEL:
        if name != "text_tokens" or len({side.study.text_tokens for side in sides}) == 1:
            known = [None if side.dense is None else getattr(side.dense, name) for side in sides]
            if None not in known:
                yield from _unlike("input" if name != "num_layers" else "model", name, known)


def _rule_of(side: Side) -> str | None:
    """The rule that judged the answers of a study. None if no answers are known."""
    return side.study.match if side.dense is not None and side.dense.accuracy is not None else None


def _unlike(about: About, name: str, values: Sequence[object]) -> Iterator[StudyDifference]:
    """One difference, if there is one. An empty text is not known, because the format of its study is older."""
    known = [value for value in values if value != ""]
    if any(value != known[0] for value in known[1:]):
        texts = tuple("none" if value == {} else as_text(value) or None for value in values)
        yield StudyDifference(about=about, name=name, values=texts)


def _unlike_files(sides: Sequence[Side], documents: Several) -> Iterator[StudyDifference]:
    """Files of one name with other content: the checkpoint, the picture or the video, the questions."""
    for group in ("model", "image", "video", "questions"):
        if len({getattr(side.study, group) for side in sides}) > 1:
            continue  # other names are a difference already
        digests = [_digests(document.sessions, group) for document in documents]
        if all(digests) and any(digest != digests[0] for digest in digests[1:]):
            same = frozenset.intersection(*digests)
            own = [", ".join(f"{name} {sha256}" for name, sha256 in sorted(digest - same)) for digest in digests]
            yield StudyDifference(about="files", name=group, values=tuple(as_text(value) or None for value in own))


def _digests(sessions: Sequence[Session], group: str) -> frozenset[tuple[str, str]]:
    """The files of a group with the digest of each. Empty if no session has one."""
    by_session = (
        frozenset((name, digest.sha256) for name, digest in session.inputs.items() if name.partition("/")[0] == group)
        for session in sessions
    )
    return next((digests for digests in by_session if digests), frozenset())


def _code(sessions: Sequence[Session]) -> tuple[str, ...]:
    named = (session.environment.commit or session.version for session in sessions)
    return tuple(dict.fromkeys(name for name in named if name))


# Cells


def _cells(documents: Several, rules: Sequence[str | None]) -> Iterator[SideCell]:
    """All cells that any study has, by method in the order of the studies, and by retention.

    rules: which judged the answers of each study.
    """
    by_study = [{(cell.method, cell.nominal_retention): cell for cell in document.summaries} for document in documents]
    methods = list(dict.fromkeys(method for document in documents for method in document.study.methods))
    keys = {key for cells in by_study for key in cells}
    for method, retention in sorted(keys, key=lambda key: (methods.index(key[0]), key[1])):
        cells = [cells.get((method, retention)) for cells in by_study]
        known = [cell for cell in cells if cell is not None and cell.status == "done"]
        alike = [cell if rule == rules[0] else None for cell, rule in zip(cells, rules, strict=True)]
        yield SideCell(
            method=method,
            nominal_retention=retention,
            cells=tuple(cells),
            prefill_ratios=_to_first(cells, "prefill_speedup", quotient_of),
            total_ratios=_to_first(cells, "total_speedup", quotient_of),
            accuracy_differences=_to_first(alike, "accuracy", difference_between),
            unequal=tuple(name for name in EXACT if any(getattr(c, name) != getattr(known[0], name) for c in known)),
        )


def _to_first(
    cells: Sequence[CellSummary | None], name: str, compare: Callable[[Any, Any], Compared]
) -> tuple[Compared | None, ...]:
    """Compare a field of each cell with that of the first one. None for the first, and where one of the two is missing.

    compare: called with the field of the first cell, and with that of the other.
    """
    first, *others = (None if cell is None else getattr(cell, name) for cell in cells)
    return (None, *(None if first is None or other is None else compare(first, other) for other in others))
