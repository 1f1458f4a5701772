"""What every verb that has measurements ends with: the report written, the document printed."""

from pathlib import Path

from trio_profile.analysis.ablate import ablate as ablation
from trio_profile.analysis.compare import compare as comparison
from trio_profile.analysis.evaluation import Evaluation
from trio_profile.analysis.layers import LayersDocument
from trio_profile.analysis.reconciliation import FlopsDocument
from trio_profile.analysis.summary import summarise
from trio_profile.analysis.theory import TheoryDocument
from trio_profile.cli import tables
from trio_profile.cli.options import print_document
from trio_profile.report import ablate, compare, flops, layers, sweep, theory, write
from trio_profile.store import Contents, keep


def publish(contents: Contents, directory: Path, *, as_json: bool) -> None:
    """Write the report of what a store holds; print its document, as JSON or as tables, and what was dropped."""
    document = summarise(contents.study, contents.environment, contents.dense, contents.measurements)
    # The report embeds the document without this path, which means nothing on another machine.
    document = document.model_copy(update={"report": str(write(sweep.report(document), directory))})
    tables.warn(contents.dropped)
    if as_json:
        print_document(document.model_dump_json(indent=2))
    else:
        tables.print_document(document)


def publish_comparison(contents: Contents, directory: Path, *, as_json: bool) -> None:
    """The same of a store whose study compares methods."""
    document = comparison(contents.study, contents.environment, contents.dense, contents.measurements)
    document = document.model_copy(update={"report": str(write(compare.report(document), directory))})
    tables.warn(contents.dropped)
    if as_json:
        print_document(document.model_dump_json(indent=2))
    else:
        tables.print_comparison(document)


def publish_ablation(contents: Contents, directory: Path, *, as_json: bool) -> None:
    """The same of a store whose study changes a method's options."""
    document = ablation(contents.study, contents.environment, contents.dense, contents.measurements)
    document = document.model_copy(update={"report": str(write(ablate.report(document), directory))})
    tables.warn(contents.dropped)
    if as_json:
        print_document(document.model_dump_json(indent=2))
    else:
        tables.print_ablation(document)


def publish_flops(document: FlopsDocument, directory: Path | None, *, as_json: bool, unit: str = "macs") -> None:
    """Keep the document and write its report if a directory is named; print it, as JSON or as tables."""
    if directory is not None:
        keep(directory / FLOPS, document)
        document = document.model_copy(update={"report": str(write(flops.report(document), directory))})
    if as_json:
        print_document(document.model_dump_json(indent=2))
    else:
        tables.print_flops(document, 2 if unit == "flops" else 1)


def publish_layers(document: LayersDocument, directory: Path | None, *, as_json: bool) -> None:
    """The same of a prefill's times."""
    if directory is not None:
        keep(directory / LAYERS, document)
        document = document.model_copy(update={"report": str(write(layers.report(document), directory))})
    if as_json:
        print_document(document.model_dump_json(indent=2))
    else:
        tables.print_layers(document)


def publish_evaluation(document: Evaluation, directory: Path | None, *, as_json: bool) -> None:
    """Keep the document of an evaluation if a directory is named; print it, as JSON or as tables."""
    if directory is not None:
        keep(directory / EVALUATION, document)
    if as_json:
        print_document(document.model_dump_json(indent=2))
    else:
        tables.print_evaluation(document)


def publish_theory(document: TheoryDocument, directory: Path | None, *, as_json: bool) -> None:
    """The same of the paper's theory, tested."""
    if directory is not None:
        keep(directory / THEORY, document)
        document = document.model_copy(update={"report": str(write(theory.report(document), directory))})
    if as_json:
        print_document(document.model_dump_json(indent=2))
    else:
        tables.print_theory(document)


FLOPS = "flops.json"
"""What `trio-profile flops --out` leaves beside its report."""
LAYERS = "layers.json"
"""What `trio-profile layers --out` leaves beside its report and its trace."""
EVALUATION = "evaluation.json"
"""What `trio-profile eval --out` leaves beside its answers."""
THEORY = "theory.json"
"""What `trio-profile theory --out` leaves beside its report."""
