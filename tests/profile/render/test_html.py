"""The page: what the file holds, that nothing in it is loaded or breaks out, and what a browser draws."""

import json
import re
import shutil
import subprocess
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from plotly.offline import get_plotlyjs

from tests.profile.examples import document, environment, failed, measurement, study
from tests.profile.reading import sentences
from trio_profile.analysis.sweep import SweepDocument
from trio_profile.errors import ProfileError
from trio_profile.findings import sweep
from trio_profile.findings.blocks import Axis, Chart, Page, Report, Series, Step, Upright, Waterfall
from trio_profile.render import drawing, html

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
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


def charts_of(found: SweepDocument) -> list[Chart]:
    return [block for page in sweep.report(found).pages for block in page.blocks if isinstance(block, Chart)]


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


def test_every_page_is_a_section_and_named_at_the_top(several: SweepDocument, several_html: str):
    pages = [page.id for page in sweep.report(several).pages]
    elements = Parsed(several_html).elements
    assert [attributes["id"] for tag, attributes in elements if tag == "section"] == pages
    assert [attributes["href"] for tag, attributes in elements if tag == "a"] == [f"#{id}" for id in pages]


def test_failed_cells_stand_with_their_reason(several_html: str):
    text = Parsed(several_html).text
    assert "failed: CUDA out of memory" in text
    assert "failed: no <keys>" in text


def test_what_was_asked_and_where_is_told(several: SweepDocument, several_html: str):
    text = Parsed(several_html).text
    assert several.study.prompt and several.study.prompt in text
    assert all(part in text for part in ("NVIDIA H200", "576 visual", "5.23.0", "trio", "fastv"))


# Nothing is loaded, nothing breaks out


def test_the_page_loads_nothing_from_elsewhere(several_html: str):
    text = ours(several_html)
    for _, attributes in Parsed(text).elements:
        for name in ("src", "href", "srcset", "action", "data", "poster"):
            assert (attributes.get(name) or "#").startswith("#")
    assert not re.search(r"@import|url\(|https?:|\bimport\b\s*[(\"']", text)
    assert "default-src 'none'" in text


def test_plotly_stands_in_the_head_once(several_html: str):
    assert several_html.count("* plotly.js v") == 1
    assert several_html.index("* plotly.js v") < several_html.index("<body>")


def test_plotly_is_told_not_to_offer_an_upload(several_html: str):
    text = ours(several_html)
    assert text.count('"showSendToCloud": false') == text.count("Plotly.newPlot(") >= 5


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


# In a browser


def browse(path: Path, profile: Path) -> tuple[str, list[str]]:
    """The page after its scripts ran, and what the console said."""
    assert CHROMIUM is not None
    switches = (
        "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
        "--disable-component-update --disable-sync --enable-logging=stderr --window-size=1280,2000 "
        "--virtual-time-budget=3000"
    )
    command = [CHROMIUM, *switches.split(), f"--user-data-dir={profile}", "--dump-dom", path.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    return done.stdout, [line for line in done.stderr.splitlines() if "CONSOLE" in line]


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here: chromium, chromium-browser or google-chrome")
def test_a_browser_draws_every_figure_without_an_error(tmp_path: Path):
    asked = study(methods=("trio", HOSTILE), model=HOSTILE, retentions=(0.11, 0.55, 0.99))
    found = document(asked)
    dom, console = browse(write(found, tmp_path), tmp_path / "profile")
    assert console == []
    assert "x.test" not in "".join(re.findall(r"href=\"[^\"]*\"", dom))
    charts = charts_of(found)
    drawn = dict(re.findall(r'<div id="figure-([\w-]+)"(.*?)</figure>', dom, flags=re.DOTALL))
    assert list(drawn) == [chart.id for chart in charts]
    for chart in charts:
        assert drawn[chart.id].count('<g class="trace scatter') == len(drawing.figure(chart).data), chart.id
        assert "main-svg" in drawn[chart.id] and "NaN" not in drawn[chart.id]
    # Two columns: each figure has the width of its own, though it was drawn when it stood alone.
    widths = [float(width) for width in re.findall(r'<svg class="main-svg"[^>]* width="([\d.]+)"', drawn["prefill"])]
    assert widths and all(400 < width < 640 for width in widths)


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here: chromium, chromium-browser or google-chrome")
def test_a_browser_draws_every_kind_of_axis_mark_and_waterfall(tmp_path: Path):
    points = Series("points", [0, 1], [0.01, 10], ["one\ntwo"] * 2, [0.005, 5], [0.02, 20], band=False, line=None)
    marked = [replace(points, marker=marker, labels=["a", "b"]) for marker in ("diamond", "square", "ring")]
    blocks = [
        Chart("names", "", "", Axis("", names=["a", HOSTILE]), Axis("nats", 0.001, 100, log=True), [points, *marked]),
        Chart(
            "free", "", "", Axis("x"), Axis("y", log=True), [points], levels=[1], uprights=[Upright(0.5, text="here")]
        ),
        Waterfall("walk", "", "", Step("first", 100, "100"), [Step(HOSTILE, -30, "-30")], Step("last", 70, "70")),
    ]
    path = html.write(Report("all", "kinds", [], [Page("page", "Page", "", blocks)]), tmp_path)
    dom, console = browse(path, tmp_path / "profile")
    assert console == [] and "NaN" not in dom[dom.index("<main>") :]
    assert "x.test" not in "".join(re.findall(r"href=\"[^\"]*\"", dom))
    drawn = dict(re.findall(r'<div id="figure-([\w-]+)"(.*?)</figure>', dom, flags=re.DOTALL))
    assert list(drawn) == ["names", "free", "walk"]
    assert [drawn[name].count('<g class="trace ') for name in drawn] == [4, 2, 1]


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here: chromium, chromium-browser or google-chrome")
def test_the_browser_test_notices_an_error(tmp_path: Path):
    (tmp_path / "page.html").write_text("<script>throw Error('seen')</script>")
    _, console = browse(tmp_path / "page.html", tmp_path / "profile")
    assert any("seen" in line for line in console)
