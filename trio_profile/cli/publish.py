"""What every verb that has measurements ends with: the report written, the document printed."""

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from trio_profile.analysis.ablate import ablate as ablation
from trio_profile.analysis.compare import compare as comparison
from trio_profile.analysis.eval import Evaluation
from trio_profile.analysis.layers import LayersDocument
from trio_profile.analysis.sweep import summarise
from trio_profile.analysis.theory import TheoryDocument
from trio_profile.cli import tables
from trio_profile.cli.options import print_document
from trio_profile.cost.reconciliation import FlopsDocument
from trio_profile.findings import ablate, compare, flops, layers, sweep, theory
from trio_profile.findings.blocks import Report
from trio_profile.records.schema import Record
from trio_profile.records.store import Contents, keep
from trio_profile.render import write

D = TypeVar("D", bound=Record)


def publish(contents: Contents, directory: Path, *, as_json: bool) -> None:
    """Write the report of what a store holds; print its document, as JSON or as tables, and what was dropped."""
    document = summarise(contents.study, contents.environment, contents.dense, contents.measurements)
    tables.warn(contents.dropped)
    _show(_reported(document, sweep.report, directory), tables.print_document, as_json)


def publish_comparison(contents: Contents, directory: Path, *, as_json: bool) -> None:
    """The same of a store whose study compares methods."""
    document = comparison(contents.study, contents.environment, contents.dense, contents.measurements)
    tables.warn(contents.dropped)
    _show(_reported(document, compare.report, directory), tables.print_comparison, as_json)


def publish_ablation(contents: Contents, directory: Path, *, as_json: bool) -> None:
    """The same of a store whose study changes a method's options."""
    document = ablation(contents.study, contents.environment, contents.dense, contents.measurements)
    tables.warn(contents.dropped)
    _show(_reported(document, ablate.report, directory), tables.print_ablation, as_json)


def publish_flops(document: FlopsDocument, directory: Path | None, *, as_json: bool, unit: str = "macs") -> None:
    """Keep the document and write its report if a directory is named; print it, as JSON or as tables."""
    if directory is not None:
        keep(directory / FLOPS, document)
        document = _reported(document, flops.report, directory)
    _show(document, lambda shown: tables.print_flops(shown, 2 if unit == "flops" else 1), as_json)


def publish_layers(document: LayersDocument, directory: Path | None, *, as_json: bool) -> None:
    """The same of a prefill's times."""
    if directory is not None:
        keep(directory / LAYERS, document)
        document = _reported(document, layers.report, directory)
    _show(document, tables.print_layers, as_json)


def publish_theory(document: TheoryDocument, directory: Path | None, *, as_json: bool) -> None:
    """The same of the paper's theory, tested."""
    if directory is not None:
        keep(directory / THEORY, document)
        document = _reported(document, theory.report, directory)
    _show(document, tables.print_theory, as_json)


def publish_evaluation(document: Evaluation, directory: Path | None, *, as_json: bool) -> None:
    """Keep the document of an evaluation if a directory is named; print it, as JSON or as tables."""
    if directory is not None:
        keep(directory / EVALUATION, document)
    _show(document, tables.print_evaluation, as_json)


def _reported(document: D, report: Callable[[D], Report], directory: Path) -> D:
    """The document with the path of its report, which is embedded there without: elsewhere the path means nothing."""
    return document.model_copy(update={"report": str(write(report(document), directory))})


def _show(document: D, table: Callable[[D], None], as_json: bool) -> None:
    if as_json:
        print_document(document.model_dump_json(indent=2))
    else:
        table(document)


FLOPS = "flops.json"
"""What `trio-profile flops --out` leaves beside its report."""
LAYERS = "layers.json"
"""What `trio-profile layers --out` leaves beside its report and its trace."""
EVALUATION = "evaluation.json"
"""What `trio-profile eval --out` leaves beside its answers."""
THEORY = "theory.json"
"""What `trio-profile theory --out` leaves beside its report."""
