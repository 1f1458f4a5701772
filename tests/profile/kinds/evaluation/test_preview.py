from tests.profile.reading import blocks, rows, sentences, table
from trio_profile.errors import StudyError
from trio_profile.kinds.evaluation import suites
from trio_profile.kinds.evaluation.preview import preview_tasks
from trio_profile.records.schema import Study
from trio_profile.report.blocks import Table
from trio_profile.report.preview import report


def planned(**fields):
    """The dry run of an evaluation."""
    study = suites.prepare(Study(**{"verb": "eval", "methods": (), "retentions": (), **fields}))
    return preview_tasks(study)


def test_a_suite_is_listed_with_what_its_tasks_need_and_the_cells(without_fvcore):
    found = report(planned(suite="trio:qwen2.5-vl-7b", retentions=(0.2,)))
    assert sentences(found)[1] == "Methods: dart and trio, at 20.0 %."
    assert "1008 × 1008 pixels, which are 1296 tokens. --pixels 1016064,1016064 gives" in sentences(found)[3]
    tasks = {row[0]: row[1:] for row in rows(table(found, "Tasks of lmms-eval"))}
    assert tasks["mme"][:2] == ["MME", "lmms-lab-encoder/MME"] and len(tasks) == 7
    assert "F1 over all questions" in tasks["pope"][2] and tasks["gqa"][2] == ""
    assert [row[0] for row in rows(table(found, "What each cell costs, in MACs"))] == ["dart", "trio"]


def test_a_model_that_cannot_be_reached_leaves_out_what_the_cells_cost(monkeypatch):
    def unreachable(*_):
        raise StudyError("model 'owner/name' cannot be loaded: no network.")

    monkeypatch.setattr("trio_profile.kinds.evaluation.preview.preview", unreachable)
    found = report(planned(model="owner/name", tasks=("pope", "gqa"), dense=False))
    assert sentences(found)[-1].startswith("What they cost is not known: model 'owner/name' cannot be loaded")
    (only,) = blocks(found, Table)
    assert [row[0] for row in rows(only)] == ["pope", "gqa"]
