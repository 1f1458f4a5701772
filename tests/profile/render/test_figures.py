"""One figure as a picture file."""

import shutil
import sys
import types

import pytest

from tests.profile.examples import document, study
from trio_profile.errors import StudyError
from trio_profile.findings import sweep
from trio_profile.findings.blocks import Page, Report
from trio_profile.render.figures import names, picture

REPORT = sweep.report(document(study(retentions=(0.11, 0.55))))
CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
STARTS = {"svg": b"<svg", "pdf": b"%PDF", "png": b"\x89PNG"}


def test_an_unknown_name_lists_the_known_ones():
    assert "prefill" in names(REPORT)
    with pytest.raises(StudyError, match=r"no figure is called 'prefil'; choose one of .*prefill, total"):
        picture(REPORT, "prefil", "svg")
    with pytest.raises(StudyError, match="this study has no figures"):
        picture(Report("", "", [], [Page("", "", "", [])]), "prefill", "svg")


def test_without_kaleido_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "kaleido", None)
    with pytest.raises(StudyError, match=r"a figure as pdf needs the extra 'figures' .*'trio-profile\[figures\]'"):
        picture(REPORT, "prefill", "pdf")


def test_without_a_browser_the_way_out_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "kaleido", types.ModuleType("kaleido"))
    monkeypatch.delenv("BROWSER_PATH", raising=False)
    monkeypatch.setenv("PATH", "")
    with pytest.raises(StudyError, match="needs Chrome or Chromium, and none is on the PATH: install one, or set"):
        picture(REPORT, "prefill", "svg")


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here: chromium or google-chrome")
@pytest.mark.parametrize("form", STARTS)
def test_a_figure_is_drawn_by_the_browser(form):
    pytest.importorskip("kaleido")
    found = picture(REPORT, "prefill", form)
    assert found.lstrip().startswith(STARTS[form])
    if form == "svg":
        assert b"Retention" in found and b"Speed-up over dense" in found
