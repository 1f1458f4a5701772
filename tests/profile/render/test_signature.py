"""Which pages may be overwritten: ours, of every version, and no others."""

from pathlib import Path

import pytest

from tests.profile.examples import document
from trio_profile.errors import StoreError
from trio_profile.findings import sweep
from trio_profile.render import html
from trio_profile.render.signature import is_ours, require_ours

REPORTS = Path(__file__).parents[3] / "reports"


def test_a_page_that_was_just_written_is_ours(tmp_path):
    assert is_ours(html.write(sweep.report(document(measurements=[])), tmp_path))


def test_every_published_page_is_ours():
    assert [path for path in REPORTS.rglob("report.html") if not is_ours(path)] == []


def test_the_page_of_somebody_else_is_kept(tmp_path):
    path, report = tmp_path / "report.html", sweep.report(document(measurements=[]))
    for text in (
        "<!doctype html><title>My notes – trio-profile</title>",
        '<meta name="generator" content="Hugo 0.1"><title>report</title>',
        "not HTML at all",
    ):
        path.write_text(text)
        with pytest.raises(StoreError, match=r"report\.html was not written by trio-profile and is kept: move it"):
            html.write(report, tmp_path)
        assert path.read_text() == text


def test_a_name_that_is_free_or_an_empty_file_may_be_taken(tmp_path):
    require_ours(tmp_path / "report.html")
    (tmp_path / "report.html").touch()
    require_ours(tmp_path / "report.html")
