"""The page: what the file holds, and that nothing in it is loaded or breaks out."""

import json
import re
import zlib
from base64 import b64decode
from dataclasses import replace
from html import unescape
from html.parser import HTMLParser
from pathlib import Path

import pytest

from tests.places import REPORTS
from tests.profile.documents import with_tokens
from tests.profile.examples import answered, document, environment, failed, measurement, study
from tests.profile.kinds.grid.test_sweep import with_failures
from tests.profile.reading import sentences
from trio_profile.errors import ProfileError, StoreError
from trio_profile.kinds.grid import sweep
from trio_profile.kinds.grid.sweep import SweepDocument
from trio_profile.records.conclusion import Conclusion
from trio_profile.report import html
from trio_profile.report.blocks import Entry, Page, Report, Sentences, Table
from trio_profile.report.definitions import by_spelling, definitions
from trio_profile.study.kinds import find
from trio_profile.study.running import Finished, write_page

HOSTILE = "</script ><img src=x onerror=\"throw Error('in')\"><a href='http://x.test'>&amp;"


def attributes(page: str, *names: str) -> list[str]:
    """The values of all attributes with one of these names."""
    return [unescape(value) for value in re.findall(rf'\s(?:{"|".join(names)})="([^"]*)"', page)]


def text_of(page: str) -> str:
    """What a reader sees."""
    bare = re.sub(r"<(script|style).*?</\1>|<[^>]*>", "", page, flags=re.DOTALL)
    return re.sub(r"[\s\u00a0]+", " ", unescape(bare))


def raw_data(text: str) -> str:
    start = text.index('id="data">') + len('id="data">')
    return text[start : text.index("</script>", start)]


def embedded(text: str) -> SweepDocument:
    return SweepDocument.model_validate(json.loads(raw_data(text)))


def ours(text: str) -> str:
    """All but plotly's own text, in which addresses stand that nothing here asks for."""
    return text.replace(html.PLOTLY.read_text(), "")


def render(found: SweepDocument) -> str:
    return html.render(sweep.report(found))


def write(found: SweepDocument, directory: Path) -> Path:
    return html.write_page(sweep.report(found), directory / "report.html")


several = pytest.fixture(with_failures, scope="module")


@pytest.fixture(scope="module")
def several_html(several: SweepDocument) -> str:
    return render(several)


# What the file holds


def test_the_embedded_data_are_the_document(several: SweepDocument, several_html: str):
    assert embedded(several_html) == several


def anchor(term: str) -> str:
    return f"numbers-{term.casefold().replace(' ', '-').replace('_', '-')}"


def test_every_definition_has_an_anchor_and_heads_tell_their_meaning(several_html: str):
    ids = attributes(several_html, "id")
    assert len(ids) == len(set(ids)) and {anchor(name) for name in definitions()} <= set(ids)
    heads = attributes("".join(re.findall(r"<th scope[^>]*>", several_html)), "title")
    assert {
        by_spelling()[name].meaning for name in ("retention", "prefill", "total", "KV cache", "MAC", "gamma")
    } <= set(heads)


# Nothing is loaded, nothing breaks out


def test_the_page_loads_nothing_from_elsewhere(several_html: str):
    text = ours(several_html)
    places = attributes(text, "src", "href", "srcset", "action", "data", "poster")
    assert places and all(place.startswith("#") for place in places)
    assert not re.search(r"@import|url\(|https?:|\bimport\b\s*[(\"']", text)
    assert "default-src 'none'" in text


def test_plotly_stands_at_the_end_once_and_waits_to_be_run(several_html: str):
    assert several_html.count("* plotly.js (finance - minified) v") == 1
    start = several_html.index('<script type="text/plain" id="plotly">')
    assert several_html.index('id="data">') < start and several_html.index("</main>") < start
    assert several_html.rstrip().endswith("</script>\n</body>\n</html>")


def test_a_default_sweep_has_at_most_1_6_megabytes():
    """With its picture, and with scores at three stages of each cell."""
    text = render(with_tokens(document()))
    assert "data:image/jpeg" in text and len(text.encode()) <= 1_600_000


@pytest.fixture(scope="module")
def long_pages(tmp_path_factory) -> dict[int, str]:
    """Pages with their data, by the number of cells, of a study with answers."""
    pages: dict[int, str] = {}
    for cells in (100, 150):
        asked = study(retentions=tuple((number + 1) / (cells + 1) for number in range(cells)))
        unpruned, measured = answered([measurement(retention=cell.retention, pairs=60) for cell in asked.cells()])
        path = tmp_path_factory.mktemp("page") / "report.html"
        write_page(Finished(find("sweep"), document(asked, measured, unpruned=unpruned)), path)
        pages[cells] = path.read_text(encoding="utf-8")
    return pages


def test_a_page_grows_by_at_most_4_500_bytes_a_cell(long_pages: dict[int, str]):
    (few, less), (many, more) = ((cells, len(page.encode())) for cells, page in long_pages.items())
    assert (more - less) / (many - few) <= 4_500


def test_long_data_are_packed_without_raw_pairs(long_pages: dict[int, str]):
    page = long_pages[100]
    packed = re.search(r'<script type="application/zlib" id="data">(.*?)</script>', page)
    assert packed and "as JSON, in the element with the id “data”, deflated and in base64." in text_of(page)
    data = json.loads(zlib.decompress(b64decode(packed[1])))
    assert len(data["cells"]) == 100 and "pairs" not in data


# The head


def test_the_sureness_leads_to_the_doubts_if_the_report_has_them():
    blocks = [Sentences("", ["one"])]
    conclusion = Conclusion(word="try", sentence="trio.", sureness="low", reasons=("few pairs",))
    report = Report("a", "b", [], [Page("page", "Page", "", blocks)], conclusion=conclusion)
    assert 'href="#doubts"' not in html.render(report)
    report = replace(report, pages=[*report.pages, Page("doubts", "Doubts", "", blocks)])
    assert html.render(report).count('href="#doubts"') == 2  # one of them in the list of pages


def test_markup_in_names_stays_text():
    asked = study(methods=(HOSTILE,), model=HOSTILE, prompt=HOSTILE, retentions=(0.11, 0.22))
    page = render(document(asked, [measurement(HOSTILE, 0.11), failed(HOSTILE, 0.22, HOSTILE)]))
    assert embedded(page).study.prompt == HOSTILE
    assert "<" not in raw_data(page)
    assert HOSTILE in text_of(ours(page)) and f"failed: {HOSTILE}" in text_of(ours(page))
    assert "<img" not in ours(page) and all(place.startswith("#") for place in attributes(ours(page), "href"))


# Poor studies


BARE = environment(cuda=None, driver=None, device_memory_bytes=None, memory_bytes=None, commit=None)


@pytest.mark.parametrize(
    "poor",
    [
        document(measurements=[]),
        document(measurements=[measurement()], without_dense=True),
        document(measurements=[failed()], without_dense=True),
        document(
            study(retentions=(0.5,)),
            [measurement(retention=0.5).model_copy(update={"gamma_counted": None, "kv_bytes_predicted": None})],
            where=BARE,
        ),
    ],
    ids=["empty", "no dense", "nothing at all", "one cell of a bare machine"],
)
def test_a_study_with_missing_parts_has_a_report(poor: SweepDocument):
    page = render(poor)
    assert embedded(page) == poor
    assert all(sentence in text_of(ours(page)) for sentence in sentences(sweep.report(poor)))


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


@pytest.mark.parametrize("path", sorted(REPORTS.rglob("report.html")), ids=lambda path: path.parent.name)
def test_every_published_page_is_ours(path):
    assert html.is_ours(path)


def test_the_page_of_somebody_else_is_kept(tmp_path):
    for text in (
        "<!doctype html><p>trio-profile format 1.1",
        '<meta name="generator" content="Hugo 0.1"><title>report</title>',
        "\x00\xff",
    ):
        path = tmp_path / "report.html"
        path.write_text(text)
        with pytest.raises(StoreError, match=r"report\.html was not written by trio-profile and is kept: move it"):
            html.write_page(sweep.report(document(measurements=[])), path)
        assert path.read_text() == text


def test_a_name_that_is_free_or_an_empty_file_may_be_taken(tmp_path):
    html.require_ours(tmp_path / "report.html")
    (tmp_path / "report.html").touch()
    html.require_ours(tmp_path / "report.html")


# --- in a notebook ---------------------------------------------------------------------------------------------------


def test_the_first_sentences_and_the_first_table_are_shown():
    blocks = [
        Sentences("", ["Use trio at 22 %."]),
        Table("cells", ["Method", "Prefill"], [[Entry("trio"), Entry("1.46×", note="[1.4, 1.5]", tone="gain")]]),
        Sentences("", ["not this."]),
    ]
    text = html.snippet(Report("trio", "pocket", ["cpu"], [Page("one", "One", "", blocks)], banner="A toy model."))
    for said in ("trio on pocket", "cpu", "A toy model.", "Use trio at 22\u00a0%.", "1.46×", "cells"):
        assert said in text
    assert "not this." not in text and "<script" not in text


def test_text_that_looks_like_markup_stays_text():
    table = Table(HOSTILE, [HOSTILE, "b"], [[Entry(HOSTILE, HOSTILE, HOSTILE), Entry("1", doubt=HOSTILE)]])
    report = Report(HOSTILE, HOSTILE, [HOSTILE], [Page("one", "", "", [Sentences("", [HOSTILE]), table])])
    seen: list[tuple[str, list]] = []

    class Tags(HTMLParser):
        def handle_starttag(self, tag, attrs):
            seen.append((tag, attrs))

    Tags().feed(html.snippet(report))
    known = "div p b br small span ul li table caption thead tbody tr th td"
    assert [tag for tag, _ in seen if tag not in known.split()] == []
    known = "class title colspan scope role tabindex aria-hidden"
    assert {name for _, attrs in seen for name, _ in attrs} <= set(known.split())


def test_a_doubt_has_the_mark_of_every_form_and_a_column_of_dashes_is_left_out():
    rows = [[Entry("trio"), Entry("–"), Entry("1.5×", doubt="few pairs")]]
    table = Table("", ["Method", "Energy", "Prefill"], rows)
    text = html.snippet(Report("a", "b", [], [Page("one", "", "", [table])]))
    assert 'title="few pairs"' in text and "† few pairs" in text
    assert "Energy" not in text and "–" not in text


def test_columns_behind_a_click_and_rows_past_the_limit_are_left_out():
    rows = [[Entry(f"row {number}"), Entry("1"), Entry("hidden")] for number in range(html.MOST_ROWS + 3)]
    table = Table("", ["name", "first", "later"], rows, first=2)
    text = html.snippet(Report("a", "b", [], [Page("one", "", "", [table])]))
    assert "hidden" not in text and "later" not in text and "3 more rows" in text and "row 39<" in text
