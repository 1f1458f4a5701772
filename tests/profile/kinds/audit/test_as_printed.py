"""A paper's printed figures beside the measured ones."""

import pytest

from tests.profile.examples import answered, contents_of, dense, document, environment, measurement, study
from tests.profile.reading import sentences
from trio_profile.errors import ClaimsError, StudyError
from trio_profile.judge.doubts import Doubt
from trio_profile.kinds.audit.as_printed import with_printed
from trio_profile.kinds.grid import compare as comparison
from trio_profile.kinds.grid import sweep
from trio_profile.kinds.grid.compare import compare
from trio_profile.records.documents import StudyDocument
from trio_profile.records.schema import Cell
from trio_profile.report.blocks import Report, Table

CLAIMS = """
paper: "TRIO: made up"
source: nowhere
models:
  llava-1.5-7b: {layers: 32, hidden: 4096, intermediate: 11008, heads: 32, visual_tokens: 576}
  other-7b: {layers: 32, hidden: 4096, intermediate: 11008, heads: 32, visual_tokens: 576}
method: {name: trio}
tables:
  times:
    where: Table 1
    rows:
      baseline: {model: llava-1.5-7b, method: dense, figures: {total_s: 600}}
      0.11: {model: llava-1.5-7b, method: trio, retention: 0.11, figures: {total_s: 300}}
      0.55: {model: llava-1.5-7b, method: trio, retention: 0.55, figures: {total_s: 400}}
  ratios:
    where: Table 2
    rows:
      trio 11: {model: llava-1.5-7b, method: trio, retention: 0.11, figures: {prefill_speedup: 3.5}}
      fastv 11: {model: llava-1.5-7b, method: fastv, retention: 0.11, figures: {prefill_speedup: 9}}
      trio 55: {model: llava-1.5-7b, method: trio, retention: 0.55, figures: {prefill_reduction_pct: 20}}
  answers:
    where: Table 3
    rows:
      trio: {model: llava-1.5-7b, method: trio, tokens: 64, figures: {accuracy_kept_pct: 94.7}}
  elsewhere:
    where: Table 4
    rows:
      trio: {model: other-7b, method: trio, retention: 0.11, figures: {prefill_speedup: 7}}
"""


@pytest.fixture
def claims(tmp_path) -> str:
    path = tmp_path / "claims.yaml"
    path.write_text(CLAIMS)
    return str(path)


def swept(model: str = "llava-1.5-7b"):
    unpruned, cells = answered([measurement(retention=0.11), measurement(retention=0.55)])
    return document(study(retentions=(0.11, 0.55), model=model), cells, unpruned=unpruned)


def table_of(report: Report) -> Table:
    [page] = [page for page in report.pages if page.id == "as-printed"]
    [table] = [block for block in page.blocks if isinstance(block, Table)]
    return table


def test_the_page_puts_printed_and_measured_beside_each_other_and_marks_doubts(claims):
    doubt = Doubt(
        cell=Cell(method="trio", retention=0.11),
        kind="busy",
        sentence="others had the CPU",
        next_step="n",
        found=2,
        threshold=1,
    )
    found = swept().model_copy(update={"doubts": [doubt]})
    rows = table_of(with_printed(sweep.report(found), found, claims)).rows
    printed = {(row[1].text, row[2].text): row[3].text for row in rows}
    assert printed["11.1 %", "prefill speed-up"] == "3.5×" and printed["11.1 %", "total speed-up"] == "2.00×"
    assert printed["11.1 %", "accuracy kept"] == "94.7 %"
    assert [row[3].note for row in rows if row[2].text == "total speed-up"] == ["600 s / 300 s", "600 s / 400 s"]
    assert not [row for row in rows if row[5].text == "other-7b"]
    assert {row[1].text for row in rows} == {"11.1 %", "55.0 %"} and all("×" in row[4].text for row in rows[:1])
    assert {row[1].text for row in rows if row[4].doubt == "doubted: others had the CPU"} == {"11.1 %"}


def test_claims_of_another_model_say_so(claims):
    found = swept("pocket")
    report = with_printed(sweep.report(found), found, claims)
    assert {row[5].text for row in table_of(report).rows} == {"llava-1.5-7b", "other-7b"}
    said = " ".join(sentences(report))
    assert "The printed figures are of llava-1.5-7b and other-7b, and this study ran pocket" in said


def test_a_comparison_has_the_printed_figures_as_a_page(claims):
    asked = study(verb="compare", retentions=(0.11,))
    found = compare(contents_of(asked, [measurement()], dense()))
    ids = [page.id for page in with_printed(comparison.report(found), found, claims).pages]
    assert ids.index("as-printed") < ids.index("study")


def test_claims_that_say_nothing_of_the_study_are_refused(claims):
    found = document(study(("random",), retentions=(0.11,)))
    with pytest.raises(StudyError, match="prints no speed-up and no accuracy of random at a retention"):
        with_printed(sweep.report(found), found, claims)
    with pytest.raises(StudyError, match="this kind of study has no speed-ups by retention"):
        with_printed(Report("", "", [], []), StudyDocument(environment=environment(), study=study()), claims)
    with pytest.raises(ClaimsError, match="not built in"):
        with_printed(sweep.report(found), found, "nonesuch")
