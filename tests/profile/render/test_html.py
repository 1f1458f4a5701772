"""The page: what the file holds, and that nothing in it is loaded or breaks out."""

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from plotly.offline import get_plotlyjs

from tests.profile.documents import with_tokens
from tests.profile.examples import document, environment, failed, measurement, study
from tests.profile.reading import sentences
from trio_profile.analysis.sweep import SweepDocument
from trio_profile.errors import ProfileError, StoreError
from trio_profile.findings import sweep
from trio_profile.findings.blocks import Chart, Confidence, Page, Report, Sentences
from trio_profile.findings.definitions import DEFINITIONS
from trio_profile.glossary import find
from trio_profile.render import html

HOSTILE = "</script ><img src=x onerror=\"throw Error('in')\"><a href='http://x.test'>&amp;"


class Parsed(HTMLParser):
    """What a browser would find: elements with their attributes, the text of each, and all visible text."""

    def __init__(self, text: str):
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.inside: dict[str, list[str]] = {}
        self._open = ""
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        self._open = tag if tag in ("script", "style") else "text"

    def handle_endtag(self, _):
        self._open = "text"

    def handle_data(self, data):
        self.inside.setdefault(self._open, []).append(data)

    @property
    def text(self) -> str:
        return re.sub(r"[\s\u00a0]+", " ", "".join(self.inside["text"]))


def raw_data(text: str) -> str:
    start = text.index('id="data">') + len('id="data">')
    return text[start : text.index("</script>", start)]


def embedded(text: str) -> SweepDocument:
    return SweepDocument.model_validate(json.loads(raw_data(text)))


def ours(text: str) -> str:
    """All but plotly's own text, in which addresses stand that nothing here asks for."""
    return text.replace(get_plotlyjs(), "")


def render(found: SweepDocument) -> str:
    return html.render(sweep.report(found))


def write(found: SweepDocument, directory: Path) -> Path:
    return html.write(sweep.report(found), directory)


@pytest.fixture(scope="module")
def several() -> SweepDocument:
    asked = study(methods=("trio", "fastv"), retentions=(0.11, 0.33, 0.55, 0.77, 0.99))
    cells = [measurement(cell.method, cell.retention) for cell in asked.cells() if cell.retention != 0.33]
    return document(asked, [*cells, failed("trio", 0.33, "CUDA out of memory"), failed("fastv", 0.33, "no <keys>")])


@pytest.fixture(scope="module")
def several_html(several: SweepDocument) -> str:
    return render(several)


# What the file holds


def test_the_embedded_data_are_the_document(several: SweepDocument, several_html: str):
    assert embedded(several_html) == several


def test_every_definition_has_an_anchor_and_heads_tell_their_meaning(several_html: str):
    elements = Parsed(several_html).elements
    defined = [attributes["id"] for tag, attributes in elements if (attributes.get("id") or "").startswith("numbers-")]
    assert {f"numbers-{find(name).anchor}" for name in DEFINITIONS} <= set(defined)
    titles = {attributes.get("title") for tag, attributes in elements if tag == "th" and "scope" in attributes}
    assert {find(name).meaning for name in ("retention", "prefill", "total", "KV cache", "MAC", "gamma")} <= titles


# Nothing is loaded, nothing breaks out


def test_the_page_loads_nothing_from_elsewhere(several_html: str):
    text = ours(several_html)
    for _, attributes in Parsed(text).elements:
        for name in ("src", "href", "srcset", "action", "data", "poster"):
            assert (attributes.get(name) or "#").startswith("#")
    assert not re.search(r"@import|url\(|https?:|\bimport\b\s*[(\"']", text)
    assert "default-src 'none'" in text


def test_plotly_stands_at_the_end_once_and_waits_to_be_run(several_html: str):
    assert html._plotly() == get_plotlyjs()
    assert several_html.count("* plotly.js v") == 1
    start = several_html.index('<script type="text/plain" id="plotly">')
    assert several_html.index('id="data">') < start and several_html.index("</main>") < start
    assert several_html.rstrip().endswith("</script>\n</body>\n</html>")


def test_figures_are_json_that_a_script_reads(several: SweepDocument, several_html: str):
    charts = [block for page in sweep.report(several).pages for block in page.blocks if isinstance(block, Chart)]
    found = re.findall(r'id="figure-([^"]+)".*?<script type="application/json">(.*?)</script>', ours(several_html))
    assert [name for name, _ in found] == [chart.id for chart in charts] and len(charts) >= 3
    assert all(json.loads(figure)["layout"]["height"] for _, figure in found)


def test_a_default_sweep_is_smaller_than_six_megabytes():
    """With its picture, and with scores at three stages of each cell."""
    text = render(with_tokens(document()))
    assert "data:image/jpeg" in text and len(text.encode()) < 6_000_000


# The head


def test_the_confidence_leads_to_the_doubts_if_the_report_has_them():
    blocks = [Sentences("", ["one"])]
    report = Report("a", "b", [], [Page("page", "Page", "", blocks)], confidence=[Confidence("low", "few pairs")])
    assert 'href="#doubts"' not in html.render(report)
    report = replace(report, pages=[*report.pages, Page("doubts", "Doubts", "", blocks)])
    assert html.render(report).count('href="#doubts"') == 2  # one of them in the list of pages


def test_every_id_of_a_page_is_unique(several_html: str):
    ids = [attributes["id"] for _, attributes in Parsed(several_html).elements if attributes.get("id")]
    assert len(ids) == len(set(ids))


def test_markup_in_names_stays_text():
    asked = study(methods=(HOSTILE,), model=HOSTILE, prompt=HOSTILE, retentions=(0.11, 0.22))
    text = render(document(asked, [measurement(HOSTILE, 0.11), failed(HOSTILE, 0.22, HOSTILE)]))
    page = Parsed(ours(text))
    assert embedded(text).study.prompt == HOSTILE
    assert "<" not in raw_data(text)
    assert HOSTILE in page.text and f"failed: {HOSTILE}" in page.text
    assert not [tag for tag, _ in page.elements if tag == "img"]
    assert all((attributes["href"] or "").startswith("#") for tag, attributes in page.elements if tag == "a")


# Poor studies


@pytest.mark.parametrize(
    "poor",
    [
        document(measurements=[]),
        document(measurements=[failed()]),
        document(measurements=[measurement()], without_dense=True),
        document(measurements=[failed()], without_dense=True),
        document(where=environment(cuda=None, driver=None, device_memory_bytes=None, memory_bytes=None, commit=None)),
        document(study(retentions=(0.5,)), [measurement(retention=0.5)]),
        document(
            measurements=[measurement().model_copy(update={"gamma_counted": None, "kv_bytes_predicted": None})],
        ),
    ],
    ids=["empty", "all failed", "no dense", "nothing at all", "bare machine", "one cell", "quantities missing"],
)
def test_a_study_with_missing_parts_has_a_report(poor: SweepDocument):
    text = render(poor)
    assert embedded(text) == poor
    assert all(sentence in Parsed(text).text for sentence in sentences(sweep.report(poor)))


# Writing


def test_writing_replaces_the_file_and_leaves_nothing_else(tmp_path: Path, several: SweepDocument):
    directory = tmp_path / "new" / "study"
    assert write(document(measurements=[]), directory) == directory / "report.html"
    path = write(several, directory)
    assert embedded(path.read_text(encoding="utf-8")) == several
    assert [file.name for file in directory.iterdir()] == ["report.html"]


def test_a_directory_that_cannot_be_written_is_named(tmp_path: Path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ProfileError, match=r"cannot write .*file.*; choose another directory"):
        write(document(measurements=[]), tmp_path / "file")


# --- which pages may be overwritten ----------------------------------------------------------------------------------

REPORTS = Path(__file__).parents[3] / "reports"


def test_a_page_that_was_just_written_is_ours(tmp_path):
    assert html.is_ours(html.write(sweep.report(document(measurements=[])), tmp_path))


@pytest.mark.parametrize("path", sorted(REPORTS.rglob("report.html")), ids=lambda path: path.parent.name)
def test_every_published_page_is_ours(path):
    assert html.is_ours(path)


@pytest.mark.parametrize(
    "text",
    [
        "<!doctype html><title>My notes – trio-profile</title>",
        "<!doctype html><p>trio-profile format 1.1",
        '<meta name="generator" content="Hugo 0.1"><title>report</title>',
        "not HTML at all",
        "\x00\xff",
    ],
)
def test_the_page_of_somebody_else_is_kept(text, tmp_path):
    path = tmp_path / "report.html"
    path.write_text(text)
    with pytest.raises(StoreError, match=r"report\.html was not written by trio-profile and is kept: move it"):
        html.write(sweep.report(document(measurements=[])), tmp_path)
    assert path.read_text() == text


def test_a_name_that_is_free_or_an_empty_file_may_be_taken(tmp_path):
    html.require_ours(tmp_path / "report.html")
    (tmp_path / "report.html").touch()
    html.require_ours(tmp_path / "report.html")
