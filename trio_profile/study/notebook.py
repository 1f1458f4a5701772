"""A document in a notebook: its first sentences and its first table."""

from collections.abc import Callable
from importlib import import_module

from trio_profile.records.documents import Document, StudyDocument
from trio_profile.report.blocks import Report
from trio_profile.report.html import snippet
from trio_profile.report.page import with_banner
from trio_profile.study.kinds import KINDS

_REPORTS = {
    "GateDocument": "trio_profile.kinds.gate.report:report",
    "Preview": "trio_profile.report.preview:report",
}
"""The reports of documents that are those of no kind, by the name of the class."""


def html_of(document: Document) -> str | None:
    """A document as a piece of HTML; None for a document without a report, which a notebook shows as text."""
    make = _report_function(document)
    if make is None:
        return None
    report = make(document)
    if isinstance(document, StudyDocument):
        report = with_banner(report, document.study.model, document.sessions)
    return snippet(report)


def _report_function(document: Document) -> Callable[[Document], Report] | None:
    if name := _REPORTS.get(type(document).__name__):
        module, _, function = name.partition(":")
        return getattr(import_module(module), function)
    # A document that was made in Python may name no verb, so the class decides.
    kinds = (kind for kind in KINDS.values() if _class_of(kind.load("document")) is type(document))
    return next((kind.load("report") for kind in kinds), None)


def _class_of(made: Callable[..., object]) -> object:
    """The class of a kind's documents: `made` itself, or what it returns."""
    return made if isinstance(made, type) else made.__annotations__.get("return")
