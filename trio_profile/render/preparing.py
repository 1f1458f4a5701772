"""What is done to a report before any renderer draws it."""

from dataclasses import replace

from trio_profile.findings.blocks import Page, Report, Table
from trio_profile.render.cleaning import clean_report
from trio_profile.render.columns import without_empty_columns


def prepare(report: Report) -> Report:
    """The report with printable texts, and with tables that have no empty column."""
    report = clean_report(report)
    return replace(report, pages=[_page(page) for page in report.pages])


def _page(page: Page) -> Page:
    blocks = [without_empty_columns(block) if isinstance(block, Table) else block for block in page.blocks]
    return replace(page, blocks=blocks)
