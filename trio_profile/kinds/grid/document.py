"""Sweeps, comparisons and ablations have a grid as document: cells beside the dense model. Here is what they share.

It holds the quantities of each cell, derived from its records, and the rows for spreadsheets and data frames.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import Field

from trio_profile.judge.accuracy import accuracy, by_kind, by_question, correct_shares, difference, mean_share
from trio_profile.judge.doubts import Doubt, doubts
from trio_profile.judge.pairs import COLUMNS, CellPairs, pairs_of
from trio_profile.judge.times import SPEEDUPS, speedup_centres, summarise_times, why_stopped
from trio_profile.quantities.registry import QUANTITIES
from trio_profile.quantities.summary import CellSummary, DenseSummary, Gamma
from trio_profile.records.contents import Contents
from trio_profile.records.documents import StudyDocument
from trio_profile.records.estimate import Milliseconds, Nats, Ratio, Share
from trio_profile.records.schema import Cell, Dense, Fidelity, KeptTokens, Measurement, Picture, Record, Study
from trio_profile.stats.intervals import machine_spread, mean_interval
from trio_profile.study.table_rows import Flat, filled, flat, of_study, text_of

_OF_A_CELL = ("remark", "notes", "retention", "layers", "budgets", "fastv_overhead_macs")
"""Fields that the summary of a cell copies from its record."""


class CellTokens(Record):
    """The tokens that one cell keeps.

    realised: the retention that the cell really ran at; None if it is not known.
    """

    cell: Cell
    realised: float | None
    kept: KeptTokens


class TokenMaps(Record):
    """The tokens that each cell keeps of the study's picture.

    cells: those with kept tokens of this picture, in the study's order. Empty if they cannot be placed on it.
    """

    picture: Picture
    cells: tuple[CellTokens, ...] = ()


class GridDocument(StudyDocument):
    """The cells of a study beside the dense model.

    dense: the dense model; None if it is not measured yet.
    doubts: the reasons not to trust numbers of the study, as `trio-profile show --doubts` prints them.
    tokens: the tokens that each cell keeps of the picture; None if the study has no picture. `--json` leaves them out,
        because they have hundreds of numbers for each stage; measurements.jsonl has them (docs/reference/format.md).
    pairs: the raw pairs of each cell. `export --pairs` has them, and the page's data if they are 5,000 at most.
    report: path of report.html.
    """

    dense: DenseSummary | None
    doubts: list[Doubt] = Field(default_factory=list)
    tokens: TokenMaps | None = Field(default=None, exclude=True)
    pairs: list[CellPairs] = Field(default_factory=list, exclude=True)
    report: str | None = None

    @property
    def summaries(self) -> Sequence[CellSummary]:
        """All cells, in the order of the document."""
        raise NotImplementedError


def in_order(contents: Contents) -> list[Measurement]:
    """Return the records of a study's cells in the study's order."""
    by_cell = {measurement.cell.id: measurement for measurement in contents.measurements}
    return [by_cell[cell.id] for cell in contents.study.cells() if cell.id in by_cell]


def fields_of(contents: Contents) -> dict[str, Any]:
    """Return the fields of a GridDocument."""
    return {
        "sessions": tuple(contents.sessions),
        "environment": contents.environment,
        "study": contents.study,
        "dense": summarise_dense(contents.dense) if contents.dense else None,
        "doubts": doubts(contents),
        "tokens": token_maps(contents),
        "pairs": pairs_of(in_order(contents), contents.sessions),
    }


def token_maps(contents: Contents) -> TokenMaps | None:
    """Return the kept tokens of a study's finished cells. None if the study keeps no picture, as old ones do not."""
    picture = contents.picture
    if picture is None:
        return None
    cells = tuple(
        CellTokens(cell=cell.cell, realised=cell.retention.realised if cell.retention else None, kept=cell.kept)
        for cell in in_order(contents)
        if cell.kept is not None and cell.kept.visual_tokens == picture.visual_tokens and cell.status == "done"
    )
    return TokenMaps(picture=picture, cells=cells)


# --- the quantities of a cell -----------------------------------------------------------------------------------------


def summarise_cells(measurements: Sequence[Measurement], study: Study, dense: Dense | None) -> list[CellSummary]:
    """Return the quantities of all cells of a study. A cell that failed or was refused has only its reason."""
    done = [measurement for measurement in measurements if measurement.status == "done"]
    machine, stopped = machine_spread(study.device), why_stopped(done, study)
    speedups = {time: speedup_centres(done, time, machine) for time in SPEEDUPS}
    return [
        _summarise(cell, study, dense, summarise_times(cell, speedups, stopped, study) if cell.status == "done" else {})
        for cell in measurements
    ]


def _summarise(
    measurement: Measurement, study: Study, dense: Dense | None, times: Mapping[str, Milliseconds | Ratio]
) -> CellSummary:
    """Return the quantities of one cell. times: its times and speed-ups."""
    summary = CellSummary(
        method=measurement.cell.method,
        status=measurement.status,
        reason=measurement.reason,
        nominal_retention=measurement.cell.retention,
    )
    counted = measurement.counted
    if measurement.status != "done" or counted is None:
        return summary
    return summary.model_copy(
        update={
            **times,
            **_summarise_fidelity(measurement.fidelity, () if dense is None else dense.pictures),
            **_summarise_answers(measurement, dense),
            **{name: getattr(measurement, name) for name in _OF_A_CELL},
            **_summarise_quantities(measurement),
            "selection_macs": counted.selection_flops // 2,
            "gamma": Gamma(assumed=study.gamma, counted=measurement.gamma_counted),
        }
    )


def _summarise_quantities(record: Measurement | Dense) -> dict[str, Any]:
    """Return the quantities that follow from one record alone."""
    return {name: quantity.summarise(record) for name, quantity in QUANTITIES.items() if quantity.summarise}


def _summarise_fidelity(fidelity: Fidelity | None, pictures: Sequence[int]) -> dict[str, Nats | Share]:
    """Return how close the output is to the dense model's output.

    pictures: number of the picture of each question; empty if each has a picture of its own.
    """
    if fidelity is None:
        return {}
    questions = fidelity.questions
    divergences = by_question(fidelity.kl_nats, questions)
    interval = mean_interval(divergences, clusters=pictures[:questions])
    closeness: dict[str, Nats | Share] = {
        "kl_nats_mean": Nats(value=float(divergences.mean()), ci95=interval, samples=questions, stopped="budget"),
        "top1_agreement": mean_share(by_question(fidelity.top1, questions), Share, pictures),
    }
    if fidelity.same:
        closeness["answer_agreement"] = mean_share(by_question(fidelity.same, questions), Share, pictures)
    return closeness


def _summarise_answers(measurement: Measurement, dense: Dense | None) -> dict[str, Any]:
    """Return the accuracy and its difference to the dense model; empty if no answers are known."""
    shares = correct_shares(measurement, dense)
    if shares is None or dense is None:
        return {}
    return {
        "accuracy": accuracy(shares, dense.pictures),
        "accuracy_difference": difference(shares, by_question(dense.correct, len(dense.correct)), dense.pictures),
        "accuracy_by_kind": by_kind(shares, dense.kinds, dense.pictures),
    }


def summarise_dense(dense: Dense) -> DenseSummary:
    """Return the dense model's quantities."""
    shares = by_question(dense.correct, len(dense.correct)) if dense.correct else None
    return DenseSummary(
        visual_tokens=dense.shape.visual_tokens,
        text_tokens=dense.shape.text_tokens,
        num_layers=dense.shape.num_layers,
        **_summarise_quantities(dense),
        accuracy=None if shares is None else accuracy(shares, dense.pictures),
        accuracy_by_kind={} if shares is None else by_kind(shares, dense.kinds, dense.pictures),
    )


# --- rows -------------------------------------------------------------------------------------------------------------


def cell_rows(document: GridDocument) -> list[Flat]:
    """Return the cells of a document: one row a cell, also for those that failed."""
    groups = {id(row): group.name for group in getattr(document, "groups", ()) for row in group.rows}
    named = [({"group": groups[id(cell)]} if groups else {}, cell) for cell in document.summaries]
    return filled([{**group, **_cell_row(document, cell)} for group, cell in named])


def pair_rows(document: GridDocument) -> list[Flat]:
    """Return the raw pairs of a document: one row a pair, in the order of measurement within each cell and session."""
    rows: list[Flat] = []
    for cell in document.pairs:
        of_cell = {"method": cell.method, "retention": cell.retention, "options": text_of(cell.options)}
        numbers: Counter[tuple[int, str]] = Counter()
        for place, (session, phase) in enumerate(zip(cell.session, cell.phase, strict=True)):
            numbers[session, phase] += 1
            rows.append(
                {
                    **of_study(document.study),
                    **of_cell,
                    "session": session,
                    "phase": phase,
                    "pair": numbers[session, phase],
                    **{name: cell.times[name][place] if name in cell.times else None for name in COLUMNS},
                    "clock_mhz": None if cell.clock_mhz is None else cell.clock_mhz[place],
                    "disturbed": cell.disturbed[place],
                }
            )
    return rows


def _cell_row(document: GridDocument, cell: CellSummary) -> Flat:
    """One cell: what was asked, where, the cell's own quantities, and the dense model's."""
    speedup, agreement = cell.prefill_speedup, cell.top1_agreement
    return {
        "kind": document.study.verb,
        **of_study(document.study),
        "device_name": document.environment.device_name,
        "commit": document.environment.commit,
        "pairs": None if speedup is None else speedup.samples,
        "processes": None if speedup is None else speedup.sessions,
        "stopped": None if speedup is None else speedup.stopped,
        "questions": None if agreement is None else agreement.samples,
        "doubts": _kinds_of_doubt(document.doubts, cell),
        **flat(type(cell), cell),
        **flat(DenseSummary, document.dense, "dense_"),
    }


def _kinds_of_doubt(raised: Sequence[Doubt], cell: CellSummary) -> str:
    """The kinds of doubt about a cell, and those about the whole study."""
    about = [doubt for doubt in raised if doubt.cell is not None and doubt.cell.id == cell.cell.id]
    return " ".join(dict.fromkeys(doubt.kind for doubt in (*about, *raised) if doubt in about or doubt.cell is None))
