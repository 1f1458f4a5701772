"""One figure as a picture file."""

import re
import sys
from types import SimpleNamespace

import pytest

from tests import needs
from tests.core.tiny import fast_first
from tests.profile.browser import CHROMIUM, MISSING
from tests.profile.examples import document, study
from trio_profile.errors import StudyError
from trio_profile.installation import install_command
from trio_profile.kinds.grid import sweep
from trio_profile.report.blocks import Axis, Chart, Page, Report, Series
from trio_profile.report.figures import names, picture
from trio_profile.report.html import PLOTLY
from trio_profile.report.palette import PALETTE

REPORT = sweep.report(document(study(retentions=(0.11, 0.55))))
STARTS = {"svg": b"<svg", "pdf": b"%PDF", "png": b"\x89PNG"}


def test_an_unknown_name_lists_the_known_ones():
    assert "prefill" in names(REPORT)
    with pytest.raises(StudyError, match=r"no figure is called 'prefil'; choose one of .*prefill, total"):
        picture(REPORT, "prefil", "svg")
    with pytest.raises(StudyError, match="this study has no figures"):
        picture(Report("", "", [], [Page("", "", "", [])]), "prefill", "svg")


def test_without_kaleido_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "kaleido", None)
    with pytest.raises(
        StudyError, match=f"a figure as pdf needs the extra 'export' .*{re.escape(install_command('export'))}$"
    ):
        picture(REPORT, "prefill", "pdf")


def test_without_a_browser_the_way_out_is_named(monkeypatch):
    def draw(*_, **__):
        raise RuntimeError("no browser")

    monkeypatch.setitem(sys.modules, "kaleido", SimpleNamespace(calc_fig_sync=draw))
    with pytest.raises(StudyError, match=r"needs Chrome or Chromium: install one, or set BROWSER_PATH.*no browser"):
        picture(REPORT, "prefill", "svg")


def test_a_picture_loads_nothing_and_is_the_figure_of_the_page(monkeypatch):
    asked = {}

    def draw(figure, opts, kopts):
        asked.update(figure=figure, opts=opts, kopts=kopts)
        return b"drawn"

    chart = Chart("one", "", "", Axis("x"), Axis("y"), [Series("a", [1], [1], colour=0)])
    monkeypatch.setitem(sys.modules, "kaleido", SimpleNamespace(calc_fig_sync=draw))
    assert picture(Report("", "", [], [Page("", "", "", [chart])]), "one", "png") == b"drawn"
    assert asked["kopts"] == {"mathjax": False, "plotlyjs": PLOTLY.as_uri()}
    assert (asked["opts"]["format"], asked["opts"]["scale"]) == ("png", 2)
    assert [trace["line"]["color"] for trace in asked["figure"]["data"]] == [PALETTE[0]]


@pytest.mark.skipif(CHROMIUM is None, reason=MISSING)
@pytest.mark.parametrize("form", fast_first(STARTS, "svg"))
@pytest.mark.slow
def test_a_figure_is_drawn_by_the_browser(form):
    needs.package("kaleido", "export")
    found = picture(REPORT, "prefill", form)
    assert found.lstrip().startswith(STARTS[form])
    if form == "svg":
        assert b"Retention" in found and b"Speed-up over dense" in found
