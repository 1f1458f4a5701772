"""Suites: the paper's tables as tasks, methods and retentions, and suites of the user's own."""

from pathlib import Path

import pytest

from tests.profile.command import complaint
from trio_profile.errors import StudyError
from trio_profile.inputs.claims.claims import read as read_claims
from trio_profile.kinds.evaluation import suites
from trio_profile.records.schema import Study

OWN = """
benchmarks:
  Shapes: {task: shapes, metrics: ["exact_match,none"], scale: 100}
tables:
  mine: {benchmarks: [Shapes], retentions: [0.5, 0.25], methods: [trio, fastv]}
"""


def asked(**fields) -> Study:
    """An evaluation that names nothing but a suite."""
    return Study(**{"verb": "eval", "methods": (), "retentions": (), **fields})


@pytest.fixture
def own(tmp_path: Path) -> Path:
    path = tmp_path / "own.yaml"
    path.write_text(OWN)
    return path


# --- the paper's suite -----------------------------------------------------------------------------------------------


def test_a_suite_of_several_tables_asks_for_one():
    with pytest.raises(StudyError, match=r"suite 'trio' has 3 tables; name one: --suite trio:llava-1\.5-7b, --suite"):
        suites.prepare(asked(suite="trio"))
    found = suites.prepare(asked(suite="trio:llava-next-7b"))
    assert found.suite == "trio:llava-next-7b" and found == suites.prepare(found)
    assert len(found.tasks) == len(suites.read("trio").tables["llava-next-7b"].benchmarks)


def test_what_the_user_names_wins_over_the_suite():
    found = suites.prepare(
        asked(suite="trio:qwen2.5-vl-7b", methods=("fastv",), retentions=(0.2,), tasks=("pope", "mine"))
    )
    assert (found.methods, found.retentions, found.tasks) == (("fastv",), (0.2,), ("pope", "mine"))
    assert suites.prepare(asked(suite="trio:qwen2.5-vl-7b")).methods == ("dart", "trio")


def test_every_method_of_the_suite_exists_and_its_averages_are_those_of_the_claims():
    from trio_core import methods

    named = {"trio, w/ encoder": "trio-ve"}
    rows = [
        row
        for name, table in read_claims("trio-2026").tables.items()
        if name.startswith("accuracy_")
        for row in table.rows.values()
        if not row.dense
    ]
    controls = {"grid", "random"}
    panel = read_claims("trio-2026").tables["summary_a"]
    rows += [row for row in panel.rows.values() if row.method in controls]
    found = suites.read("trio")
    visual_tokens = {"llava-1.5-7b": 576, "llava-next-7b": 2880, "qwen2.5-vl-7b": 1296}
    for table in found.tables.values():
        assert set(table.methods) <= set(methods.names()) and set(table.averages) == set(table.retentions)
        for averages in table.averages.values():
            assert set(averages) - controls == set(table.methods)
    for row in rows:
        table = found.tables[row.model]
        kept = row.retention or float(row.tokens or 0) / visual_tokens[row.model]
        (averages,) = (one for retention, one in table.averages.items() if abs(retention - float(kept)) < 0.001)
        assert averages[named.get(row.method, row.method)] == float(row.figures["accuracy_kept_pct"])
    assert len(rows) == sum(len(averages) for table in found.tables.values() for averages in table.averages.values())


def test_the_columns_say_how_a_task_differs_from_the_paper():
    found = suites.chosen(asked(suite="trio:llava-1.5-7b"))
    assert found is not None
    columns = {column.name: column for column in found.columns()}
    assert columns["MME"].metrics == ("mme_perception_score,none", "mme_cognition_score,none")
    assert "OCR tokens" in columns["TextVQA"].differs and "not public" in columns["VQAv2"].differs
    assert columns["MMB-CN"].printed == "MMBench-CN" and not columns["GQA"].differs
    tasks = [column.task for column in found.columns()]
    printed = found.printed(tasks)
    assert len(printed) == 33 and printed[0].average == pytest.approx(0.89)
    assert not found.printed(tasks[:3]), "an average of all benchmarks does not stand beside one of three"
    assert found.printed([*tasks, "mine"])


# --- other suites, and mistakes --------------------------------------------------------------------------------------


def test_a_suite_of_ones_own_is_a_file(own: Path):
    found = suites.prepare(asked(suite=str(own)))
    assert found.tasks == ("shapes",) and found.retentions == (0.5, 0.25) and found.suite == f"{own}:mine"
    again = suites.chosen(found)
    assert again is not None and again.name == "own:mine" and again.printed(["shapes"]) == ()


def test_the_suite_in_the_documentation_is_one(own: Path):
    page = (Path(__file__).parents[4] / "docs" / "how-to" / "evaluation.md").read_text(encoding="utf-8")
    own.write_text(page.partition('```yaml title="my.yaml"\n')[2].partition("```")[0], encoding="utf-8")
    found = suites.chosen(asked(suite=str(own)))
    assert found is not None and found.name == "own:mine" and len(found.printed(["colours"])) == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty; docs/how-to/evaluation.md has an example"),
        ("tables: {a: {}}", "line 1: benchmarks"),
        (OWN.replace("[Shapes]", "[Shape]"), "'Shape' is none of the file's benchmarks; known are Shapes"),
        (OWN.replace("[Shapes]", "[Shapes, Shapes]"), "one stands twice"),
        (OWN.replace("[0.5, 0.25]", "[50]"), "tables.mine.retentions.0"),
        (OWN.replace("scale", "scales"), "perhaps scale"),
        (OWN.replace("task: shapes, ", ""), "benchmarks.Shapes.task: is missing; docs/how-to/evaluation.md has the"),
        (OWN.replace("exact_match,none", "exact_match"), "benchmarks.Shapes.metrics.0"),
        ("a: &a [*a]", "anchors and aliases are not allowed"),
        ("{", "is not YAML"),
    ],
)
def test_a_fault_in_a_suite_is_named_with_its_line(own: Path, text: str, message: str):
    own.write_text(text)
    with pytest.raises(StudyError) as found:
        suites.read(str(own))
    assert message in str(found.value) and str(own) in str(found.value)


@pytest.mark.parametrize(
    ("suite", "message"),
    [
        ("trios", "unknown suite 'trios': choose trio, or name a YAML file"),
        ("trio:llava", "suite 'trio' has no table 'llava'; choose llava-1.5-7b, llava-next-7b, qwen2.5-vl-7b"),
        ("no.yaml", "no.yaml cannot be read: No such file or directory"),
    ],
)
def test_a_wrong_suite_is_refused_in_one_line(capsys, suite: str, message: str):
    assert message in complaint(capsys, "eval", "--suite", suite, "--dry-run")
