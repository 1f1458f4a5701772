import json
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest
from plotly.offline import get_plotlyjs

from tests.profile.examples import answered, document, environment, failed, measurement, study
from trio_profile import render as report
from trio_profile.analysis.accuracy import Kept
from trio_profile.analysis.sweep import Document
from trio_profile.cli import tables
from trio_profile.errors import ProfileError
from trio_profile.findings import charts as figures
from trio_profile.findings import sweep
from trio_profile.findings.blocks import Chart
from trio_profile.findings.sweep import PAGES
from trio_profile.findings.verdict import sentences
from trio_profile.stats.crossing import BreakEven

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
HOSTILE = "</script ><img src=x onerror=\"throw Error('in')\"><a href='http://x.test'>&amp;"


class Page(HTMLParser):
    """What a browser would find: elements with their attributes, the text of each, and all visible text."""

    def __init__(self, html: str):
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.inside: dict[str, list[str]] = {}
        self._open = ""
        self.feed(html)

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


def raw_data(html: str) -> str:
    start = html.index('id="data">') + len('id="data">')
    return html[start : html.index("</script>", start)]


def embedded(html: str) -> Document:
    return Document.model_validate(json.loads(raw_data(html)))


def ours(html: str) -> str:
    """All but plotly's own text, in which addresses stand that nothing here asks for."""
    return html.replace(get_plotlyjs(), "")


def charts_of(found: Document) -> list[Chart]:
    return [block for build in PAGES for block in build(found).blocks if isinstance(block, Chart)]


def render(found: Document) -> str:
    return report.render(sweep.report(found))


def write(found: Document, directory: Path) -> Path:
    return report.write(sweep.report(found), directory)


@pytest.fixture(scope="module")
def several() -> Document:
    asked = study(methods=("trio", "fastv"), retentions=(0.11, 0.33, 0.55, 0.77, 0.99))
    cells = [measurement(cell.method, cell.retention) for cell in asked.cells() if cell.retention != 0.33]
    return document(asked, [*cells, failed("trio", 0.33, "CUDA out of memory"), failed("fastv", 0.33, "no <keys>")])


@pytest.fixture(scope="module")
def several_html(several: Document) -> str:
    return render(several)


# What the file holds


def test_the_embedded_data_are_the_document(several: Document, several_html: str):
    assert embedded(several_html) == several


def test_the_order_of_pages_begins_with_the_verdict(several_html: str):
    sections = [attributes["id"] for tag, attributes in Page(several_html).elements if tag == "section"]
    assert sections == ["verdict", "speed-up", "answers", "work", "cache", "cells", "study", "numbers"]


def test_failed_cells_stand_with_their_reason(several_html: str):
    text = Page(several_html).text
    assert "failed: CUDA out of memory" in text
    assert "failed: no <keys>" in text


def test_cells_that_never_ran_are_said_to_be_missing():
    html = render(document(study(retentions=(0.11, 0.22)), [measurement(retention=0.22)]))
    assert "not measured yet" in Page(html).text


def test_what_was_asked_and_where_is_told(several: Document, several_html: str):
    text = Page(several_html).text
    assert several.study.prompt and several.study.prompt in text
    assert all(part in text for part in ("NVIDIA H200", "576 visual", "5.23.0", "trio", "fastv"))


def test_every_page_tells_how_to_read_it(several: Document):
    for page in (build(several) for build in PAGES):
        assert page.how_to_read.endswith(".") and page.blocks


def test_every_figure_can_be_told_without_being_seen(several: Document):
    charts = charts_of(several)
    assert len({chart.id for chart in charts}) == len(charts) >= 5
    assert all(chart.label and chart.caption for chart in charts)


# Answers


@pytest.fixture(scope="module")
def quizzed() -> Document:
    asked = study(methods=("trio", "random"))
    unpruned, told = answered([measurement(cell.method, cell.retention) for cell in asked.cells()])
    return document(asked, told, unpruned=unpruned)


def test_answers_stand_in_the_verdict_on_their_page_and_in_the_terminal(quizzed: Document, capsys):
    text = Page(render(quizzed)).text
    assert "Of dense accuracy, trio keeps 99 % of it from a retention of" in text
    assert "points less" in text and "Questions answered right" in text and "1 hops" in text
    tables.print_document(quizzed)
    printed = capsys.readouterr().out
    assert "accuracy" in printed and "Of dense accuracy, random keeps" in printed


def test_the_page_of_answers_says_what_is_missing(several_html: str):
    assert "A file of them is named by --questions" in Page(several_html).text


# Nothing is loaded, nothing breaks out


def test_nothing_is_loaded_from_anywhere(several_html: str):
    html = ours(several_html)
    for _, attributes in Page(html).elements:
        for name in ("src", "href", "srcset", "action", "data", "poster"):
            assert (attributes.get(name) or "#").startswith("#")
    assert not re.search(r"@import|url\(|https?:|\bimport\b\s*[(\"']", html)
    assert "default-src 'none'" in html


def test_plotly_stands_in_the_head_once(several_html: str):
    assert several_html.count("* plotly.js v") == 1
    assert several_html.index("* plotly.js v") < several_html.index("<body>")


def test_plotly_is_told_not_to_offer_an_upload(several_html: str):
    html = ours(several_html)
    assert html.count('"showSendToCloud": false') == html.count("Plotly.newPlot(") >= 5


def test_markup_in_names_is_text():
    asked = study(methods=(HOSTILE,), model=HOSTILE, prompt=HOSTILE, retentions=(0.11, 0.22))
    html = render(document(asked, [measurement(HOSTILE, 0.11), failed(HOSTILE, 0.22, HOSTILE)]))
    page = Page(ours(html))
    assert embedded(html).study.prompt == HOSTILE
    assert "<" not in raw_data(html)
    assert HOSTILE in page.text and f"failed: {HOSTILE}" in page.text
    assert not [tag for tag, _ in page.elements if tag == "img"]
    assert all((attributes["href"] or "").startswith("#") for tag, attributes in page.elements if tag == "a")


def test_markup_in_names_is_text_inside_figures():
    # plotly reads a little HTML in the texts it draws: links, for one.
    asked = study(methods=(HOSTILE,), retentions=(0.11,))
    found = document(asked, [measurement(HOSTILE, 0.11)])
    traces = [trace for chart in charts_of(found) for trace in chart.figure.data]
    drawn = [text for trace in traces for text in (trace.name or "", *(trace.text or ()))]
    assert any("&lt;a href" in text for text in drawn) and not any("<a" in text for text in drawn)


# Figures


def test_each_method_has_one_colour_in_every_figure(several: Document):
    for method in several.study.methods:
        own = figures.colour(several, method)
        for figure in (figures.prefill_speedup(several), figures.total_speedup(several), figures.cache(several)):
            lines = [t for t in figure.data if t.legendgroup == method and t.mode == "lines+markers"]
            assert [line.line.color for line in lines] == [own]


def test_speedups_lie_in_their_bands(several: Document):
    lines = {t.legendgroup: t for t in figures.prefill_speedup(several).data if t.mode == "lines+markers"}
    bands = {t.legendgroup: t for t in figures.prefill_speedup(several).data if t.fill == "toself" and len(t.x) > 4}
    for method, line in lines.items():
        n = len(line.y)
        low, high = bands[method].y[:n], bands[method].y[n:][::-1]
        assert all(a <= y <= b for a, y, b in zip(low, line.y, high, strict=True))


def test_a_single_point_shows_its_interval():
    found = document(study(retentions=(0.5,)), [measurement(retention=0.5)])
    speedup = found.cells[0].prefill_speedup
    assert speedup is not None
    assert speedup.ci95 in [t.y for t in figures.prefill_speedup(found).data]


def test_prefill_and_total_have_one_scale(several: Document):
    ranges = [f(several).layout.yaxis.range for f in (figures.prefill_speedup, figures.total_speedup)]
    assert ranges[0] == ranges[1]


def test_the_break_even_is_marked_with_its_interval(several: Document):
    found = several.break_even_by_method["trio"]["prefill_ms"]
    assert found.retention is not None and found.ci95 is not None
    traces = [t for t in figures.prefill_speedup(several).data if t.legendgroup == "trio"]
    assert [t.x for t in traces if t.name == "break-even"] == [(100 * found.retention,) * 2]
    assert any(t.fill == "toself" and (min(t.x), max(t.x)) == tuple(100 * x for x in found.ci95) for t in traces)


def test_work_holds_claim_count_and_time_against_dense(several: Document):
    dense = several.dense
    assert dense is not None
    cell = next(cell for cell in several.cells if cell.method == "trio")
    assert cell.fastv_macs and cell.counted_macs and cell.selection_macs and cell.prefill_speedup
    first = {t.name: t.y[0] for t in figures.work(several, "trio").data if t.mode == "lines+markers"}
    assert first == {
        "prefill time, measured": pytest.approx(1 / cell.prefill_speedup.value),
        "counted": pytest.approx(cell.counted_macs / dense.counted_macs),
        "counted, no selection": pytest.approx((cell.counted_macs - cell.selection_macs) / dense.counted_macs),
        "claimed by formula": pytest.approx(cell.fastv_macs / dense.fastv_macs),
    }


def test_points_that_stopped_early_are_open():
    found = document(measurements=[measurement(retention=0.11), measurement(retention=0.22, stopped="budget")])
    line = next(t for t in figures.prefill_speedup(found).data if t.mode == "lines+markers")
    assert line.marker.symbol == ("circle", "circle-open")


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
def test_a_poor_study_still_has_a_report(poor: Document):
    html = render(poor)
    assert embedded(html) == poor
    assert all(sentence in Page(html).text for sentence in sentences(poor))


# The verdict


def with_break_even(status: str, **fields) -> Document:
    found = document()
    by_method = {"trio": {**found.break_even, "prefill_ms": BreakEven(status=status, **fields)}}
    return found.model_copy(update={"break_even_by_method": by_method})


@pytest.mark.parametrize(
    ("found", "sentence"),
    [
        (
            with_break_even("crossing", retention=0.612, ci95=(0.55, 0.66)),
            "Pruning with trio pays in prefill up to a retention of 61 % [55, 66].",
        ),
        (
            with_break_even("crossing", retention=0.95, ci95=(0.9, 0.9898546006944444)),
            "Pruning with trio pays in prefill up to a retention of 95 % [90, 99]; "
            "the interval ends with the sweep, so break-even may lie above it.",
        ),
        (
            with_break_even("always"),
            "Pruning with trio pays in prefill at every retention measured, 11.0 % to 99.0 %: "
            "the sweep met no break-even.",
        ),
        (
            with_break_even("never"),
            "Pruning with trio does not pay in prefill at any retention measured, 11.0 % to 99.0 %.",
        ),
        (
            with_break_even("inconclusive"),
            "Whether pruning with trio pays in prefill is open: "
            "the noise allows both at every retention measured, 11.0 % to 99.0 %.",
        ),
    ],
    ids=["crossing", "crossing at the end", "always", "never", "inconclusive"],
)
def test_each_status_has_its_sentence(found: Document, sentence: str):
    assert sentence in sentences(found)


def test_the_first_sentence_has_both_speedups_with_intervals():
    pattern = r"trio at 11\.0 % retention: prefill [\d.]+× faster \[[\d., ]+\], .* [\d.]+× faster \[[\d., ]+\]\."
    assert re.fullmatch(pattern, sentences(document())[0])


def test_a_loss_is_called_a_loss():
    first = sentences(document(measurements=[measurement(overhead_ms=60)]))[0]
    assert "prefill slower than dense, at 0.3" in first and "faster" not in first


def test_what_the_noise_hides_is_not_claimed():
    first = sentences(document(measurements=[measurement(retention=0.44, overhead_ms=8.5, noise=0.2)]))[0]
    assert "prefill not told apart from dense" in first and "faster" not in first


def test_claim_and_count_stand_in_one_sentence():
    work = next(sentence for sentence in sentences(document()) if sentence.startswith("Work of trio"))
    assert re.search(r"exact counts: the formula says [\d.]+× fewer MACs, the counter says [\d.]+× fewer", work)


def test_early_stops_are_confessed():
    found = document(
        study(retentions=(0.11, 0.22, 0.33)),
        [measurement(retention=0.11, stopped="budget"), measurement(retention=0.22, stopped="plateau")],
    )
    text = "\n".join(sentences(found))
    assert "stopped at its time budget in 1 of 2 cells: intervals there are wider than the ±1.0 % asked for" in text
    assert "stopped at a plateau in 1 of 2 cells" in text
    assert "Not measured yet: 1 of 3 cells" in text


def test_a_cache_other_than_predicted_is_told():
    odd = measurement().model_copy(update={"kv_bytes_predicted": 64 * 2**20})
    assert any("not as predicted (64 MiB)" in sentence for sentence in sentences(document(measurements=[odd])))


def test_the_verdict_is_plain_text(several: Document):
    assert all(sentence and not re.search(r"<|&\w+;|\n", sentence) for sentence in sentences(several))


# Writing


def test_writing_replaces_the_file_and_leaves_nothing_else(tmp_path: Path, several: Document):
    directory = tmp_path / "new" / "study"
    assert write(document(measurements=[]), directory) == directory / "report.html"
    path = write(several, directory)
    assert embedded(path.read_text(encoding="utf-8")) == several
    assert [file.name for file in directory.iterdir()] == ["report.html"]


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ProfileError, match=r"cannot write .*file.*; choose another --out"):
        write(document(measurements=[]), tmp_path / "file")


def test_a_report_needs_no_torch():
    code = "import sys, trio_profile.render; print({'torch', 'transformers', 'trio_core'} & set(sys.modules))"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "set()"


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
        assert drawn[chart.id].count('<g class="trace scatter') == len(chart.figure.data), chart.id
        assert "main-svg" in drawn[chart.id] and "NaN" not in drawn[chart.id]
    # Two columns: each figure has the width of its own, though it was drawn when it stood alone.
    widths = [float(width) for width in re.findall(r'<svg class="main-svg"[^>]* width="([\d.]+)"', drawn["prefill"])]
    assert widths and all(400 < width < 640 for width in widths)


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here: chromium, chromium-browser or google-chrome")
def test_a_browser_would_have_told_of_an_error(tmp_path: Path):
    (tmp_path / "page.html").write_text("<script>throw Error('seen')</script>")
    _, console = browse(tmp_path / "page.html", tmp_path / "profile")
    assert any("seen" in line for line in console)


@pytest.mark.parametrize(
    ("ci95", "text", "note"),
    [((0.22, 0.22), "22.0 %", "prefill 1.50×"), ((0.22, 1.0), "22 %", "[22, 100], prefill 1.50×")],
)
def test_the_cheapest_retention_stands_with_its_interval_and_what_it_saves(ci95, text, note):
    found = sweep._kept_entry(Kept(status="crossing", retention=0.22, ci95=ci95, prefill_speedup=1.5))
    assert (found.text, found.note) == (text, note)
