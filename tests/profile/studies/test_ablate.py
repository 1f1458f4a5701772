"""`trio-profile ablate`: which variants there are, one document of them, its report, and what is refused."""

import json
from hashlib import sha256
from importlib.resources import files

import pytest
import yaml
from scipy.stats import binomtest

from tests.profile import examples
from trio_core import methods
from trio_profile import render as report
from trio_profile.analysis.ablate import PRINTED, Ablation, ablate
from trio_profile.analysis.stability import name
from trio_profile.cli import run
from trio_profile.errors import StudyError
from trio_profile.findings import ablate as pages
from trio_profile.gate.evidence import of_study
from trio_profile.inputs.models import BUILTIN, num_layers
from trio_profile.records.estimate import Measured
from trio_profile.records.schema import Cell, Dense, Fidelity, Measurement, Study
from trio_profile.records.store import Contents, Store, to_toml
from trio_profile.studies import ablations, sweep
from trio_profile.studies.plan import make, plan, read

GROUPS = ["k_pos", "threshold", "layers", "probe", "saliency"]


@pytest.fixture(scope="module")
def study(tiny_study: Study) -> Study:
    fields = {"verb": "ablate", "retentions": (0.6,), "cell_seconds": 0.01, "fidelity_inputs": 1}
    asked = tiny_study.model_copy(update=fields)
    return asked.model_copy(update={"ablations": ablations.of(asked, ("layers", "probe"))})


@pytest.fixture(scope="module")
def contents(study: Study, tmp_path_factory) -> Contents:
    return sweep.run(study, tmp_path_factory.mktemp("ablated"), refusals=True)


@pytest.fixture(scope="module")
def ablated(contents: Contents) -> Ablation:
    return ablate(contents.study, contents.environment, contents.dense, contents.measurements)


# --- what is tried ---------------------------------------------------------------------------------------------------


def test_the_paper_s_variants_are_there():
    """At its depth, under the names that its tables have: data/claims/trio-2026.yaml was copied from them."""
    found = ablations.of(Study(model="llava-1.5-7b"))
    assert list(found) == GROUPS
    tables = yaml.safe_load((files("trio_profile") / "data/claims/trio-2026.yaml").read_text())["tables"]
    of_default = {"k_pos": "4", "threshold": "0.80", "layer_sensitivity": "1, 10, 15"}
    for table, default in of_default.items():
        group = "layers" if table == "layer_sensitivity" else table
        printed = {default if row == "trio" else _named(row): value for row, value in tables[table]["rows"].items()}
        assert printed == PRINTED[group]
        assert set(printed) <= set(found[group])
        assert found[group][default] == {}


def _named(row: str) -> str:
    """`trio, τ 0.70` → `0.70`, `trio, layers 1 9 14` → `1, 9, 14`, `trio, no NMS` → `none`."""
    what, *values = row.removeprefix("trio, ").split()
    return "none" if what == "no" else ", ".join(values)


@pytest.mark.parametrize("model", ["pocket", "llava-1.5-7b", "qwen2.5-vl-7b"])
def test_each_variant_is_trio_with_one_thing_changed(model: str):
    """Every group has the default once; of the others each can be made, and none is it, nor another."""
    asked = Study(model=model, verb="ablate", retentions=(0.3,))
    asked = asked.model_copy(update={"ablations": ablations.of(asked)})
    for variants in asked.ablations.values():
        assert list(variants.values()).count({}) == 1
    planned = plan(asked, examples.shape(num_layers=num_layers(model)))
    assert len({repr(cell.method) for cell in planned}) == len(planned) == 1 + 7 + 6 + 7 + 3 + 1
    stands = planned[0].method
    assert stands == methods.find("trio")(retention=0.3)
    for cell in planned[1:]:
        changed = {
            option for option in cell.method.option_names() if getattr(cell.method, option) != getattr(stands, option)
        }
        assert changed == set(cell.cell.options)


def test_nearby_layers():
    assert ablations.nearby((1, 5, 8)) == [
        (1, 5, 8),
        *((1, 4, 7), (1, 6, 9)),
        *((2, 5, 8), (1, 4, 8), (1, 6, 8), (1, 5, 7), (1, 5, 9)),
    ]
    assert ablations.nearby((3,)) == [(3,), (2,), (4,)]
    assert ablations.nearby((2, 6)) == [(2, 6), (2, 5), (2, 7), (1, 6), (3, 6)]


def test_the_study_s_own_options_are_the_default():
    asked = Study(layers=(2, 6), options={"k_pos": 12, "nms": False, "saliency": "autograd"})
    found = ablations.of(asked)
    assert next(iter(found["k_pos"].items())) == ("as it stands", {})
    assert found["k_pos"]["4"] == {"k_pos": 4}
    assert found["threshold"]["none"] == {} and found["threshold"]["0.80"] == {"nms": True}
    assert found["layers"]["2, 6"] == {}
    assert found["saliency"] == {"tail": {"saliency": "tail"}, "autograd": {}}


@pytest.mark.parametrize("model", sorted(BUILTIN))
def test_the_depth_is_known_without_the_model(model: str):
    from trio_core.models import adapter_for
    from trio_profile.inputs.models import without_weights

    assert num_layers(model) == len(adapter_for(without_weights(BUILTIN[model])).layers)


def test_the_depth_of_a_checkpoint(tiny_study: Study, tiny_workload):
    assert num_layers(tiny_study.model) == tiny_workload.shape.num_layers
    with pytest.raises(StudyError, match="unknown model 'nonsense'"):
        num_layers("nonsense")


# --- cells -----------------------------------------------------------------------------------------------------------


def test_a_cell_without_options_is_what_it_was():
    """What every store before has it by: of its JSON at that time."""
    then = sha256(b'{"method":"trio","retention":0.11}').hexdigest()
    assert Cell(method="trio", retention=0.11).id == then[:12]
    assert Cell(method="trio", retention=0.11, options={"k_pos": 1}).id != Cell(method="trio", retention=0.11).id


def test_cells_are_the_default_and_each_variant_once(study: Study):
    cells = study.cells()
    assert cells[0] == Cell(method="trio", retention=0.6)
    assert len({cell.id for cell in cells}) == len(cells)
    assert {study.block(cell) for cell in cells} == {(0.6, 0), (0.6, 1)}
    assert study.block(cells[0]) == (0.6, 0)
    assert name(Cell(method="trio", retention=0.6, options={"layers": (1, 2)})) == "trio (layers = (1, 2)) at 60.0 %"


def test_ablations_survive_a_study_file(study: Study, tmp_path):
    (tmp_path / "study.toml").write_text(to_toml(study))
    assert make(**read(tmp_path / "study.toml")) == study
    with pytest.raises(StudyError, match="ablations layers, probe are for verb 'ablate', not 'sweep'"):
        make(**{**read(tmp_path / "study.toml"), "verb": "sweep"})


def test_variants_are_kept_and_not_measured_again(contents: Contents, study: Study, tmp_path, monkeypatch):
    """A store that was cut off goes on with what is missing."""
    kept = [m for m in contents.measurements if study.block(m.cell) == (0.6, 0)]
    store = Store(tmp_path)
    store.open(study, contents.environment)
    assert contents.dense is not None
    for record in (contents.dense, *kept):
        store.append(record)
    assert {m.cell.id: m for m in store.read().measurements} == {m.cell.id: m for m in kept}
    measured = []
    whole = sweep.measure_block
    monkeypatch.setattr(
        sweep,
        "measure_block",
        lambda workload, block, *a, **k: measured.append(block) or whole(workload, block, *a, **k),
    )
    gone_on = sweep.run(study, tmp_path, refusals=True)
    assert {cell.id for cell in study.cells()} == {m.cell.id for m in gone_on.measurements}
    [block] = measured
    assert {study.block(planned.cell) for planned in block} == {(0.6, 1)}


def test_a_gate_tells_variants_apart(contents: Contents):
    evidence = of_study(contents, "here").evidence
    assert {"trio at 0.6", "trio (probe = current) at 0.6"} <= set(evidence)
    assert len(evidence) == 1 + sum(m.status == "done" for m in contents.measurements)


# --- the document ----------------------------------------------------------------------------------------------------


def test_every_variant_has_a_row_and_the_default_is_in_every_group(ablated: Ablation, study: Study):
    assert [group.name for group in ablated.groups] == ["layers", "probe"]
    for group in ablated.groups:
        assert [row.variant for row in group.rows] == list(study.ablations[group.name])
        [default] = [row for row in group.rows if row.default]
        assert default.status == "done"
        for row in group.at(0.6):
            assert row.prefill_speedup and row.counted_macs and row.selection_macs and row.kl_nats
    probe = {row.variant: row for row in ablated.groups[1].rows}
    assert probe["next, last"].model_dump() == {
        **next(r for r in ablated.groups[0].rows if r.default).model_dump(),
        "variant": "next, last",
    }


def test_what_cannot_be_scheduled_is_listed_with_its_reason(ablated: Ablation):
    """The checkpoint has few layers: a stage that is moved onto another, or past the last one, is none."""
    reasons = {row.variant: str(row.reason) for _, row in ablated.refusals}
    assert reasons
    for variant, reason in reasons.items():
        assert "must ascend" in reason or "can be pruned after layers" in reason or "cannot be reached" in reason, (
            variant
        )
    assert ablated.groups[0].rows != ablated.groups[0].at(0.6)


def _measured(options: dict, correct: list[bool]) -> Measurement:
    seen = Fidelity(kl_nats=(0.1,) * len(correct), top1=tuple(correct), same=tuple(correct), correct=tuple(correct))
    cell = Cell(method="trio", retention=0.11, options=options)
    return examples.measurement().model_copy(update={"cell": cell, "fidelity": seen})


@pytest.fixture(scope="module")
def known() -> Ablation:
    """200 questions: k_pos 1 loses 30 that the default answers and gains 5, k_pos 2 loses as many as it gains."""
    study = examples.study(
        verb="ablate", retentions=(0.11,), ablations={"k_pos": {"1": {"k_pos": 1}, "2": {"k_pos": 2}, "4": {}}}
    )
    stands = [True] * 120 + [False] * 80
    worse = [False] * 30 + [True] * 95 + [False] * 75
    other = [False] * 4 + [True] * 120 + [False] * 76
    dense = Dense(**{**dict(examples.dense()), "correct": (True,) * 150 + (False,) * 50})
    cells = [_measured({"k_pos": 1}, worse), _measured({}, stands), _measured({"k_pos": 2}, other)]
    return ablate(study, examples.environment(), dense, cells)


def test_differences_are_paired_with_the_default(known: Ablation):
    one, two, four = known.groups[0].rows
    assert [row.default for row in (one, two, four)] == [False, False, True]
    assert four.default_difference is None and four.printed == 94.9
    assert one.default_difference is not None and two.default_difference is not None
    assert one.default_difference.value == pytest.approx(-25 / 200)
    assert one.accuracy_difference is not None and one.accuracy_difference.value == pytest.approx(-55 / 200)
    # McNemar's exact test of the same pairs says the same of what is told apart.
    for row, lost, gained in ((one, 30, 5), (two, 4, 4)):
        low, high = row.default_difference.ci95
        assert (not low <= 0 <= high) == (binomtest(lost, lost + gained).pvalue < 0.05)


def test_sentences_say_what_stands_out(known: Ablation):
    told = pages.sentences(known.groups[0], 0.11)
    assert told[0].startswith("k_pos 1 answers 12.5 points less [−18.0, −6.7]")
    assert told[1] == "Not told apart from the default by their answers: 2."
    assert told[2].startswith("Not told apart by prefill time")


def test_two_variants_that_differ_in_time_are_told_though_a_third_is_uncertain(known: Ablation):
    """The least median, 1.4×, is that of an interval which holds all others."""
    speeds = [(2.2, (2.1, 2.3)), (1.5, (1.4, 1.6)), (1.4, (0.3, 2.3))]
    rows = [
        row.model_copy(update={"prefill_speedup": Measured(median=middle, ci95=ci95, samples=20, stopped="budget")})
        for row, (middle, ci95) in zip(known.groups[0].rows, speeds, strict=True)
    ]
    [told] = pages._speeds(rows)
    fast, slow = rows[0].variant, rows[1].variant
    assert told == f"In prefill {fast}, 2.20× [2.10, 2.30] over dense, is faster than {slow}, 1.5× [1.4, 1.6]."
    assert pages._speeds(rows[1:]) == ["Not told apart by prefill time."]


def test_a_default_that_was_not_measured_leaves_no_difference():
    study = examples.study(verb="ablate", retentions=(0.11,), ablations={"k_pos": {"1": {"k_pos": 1}, "4": {}}})
    dense = Dense(**{**dict(examples.dense()), "correct": (True,) * 20})
    found = ablate(study, examples.environment(), dense, [_measured({"k_pos": 1}, [True] * 20)])
    [row] = found.groups[0].rows
    assert row.accuracy is not None and row.default_difference is None
    assert "no difference" not in " ".join(pages.sentences(found.groups[0], 0.11))


# --- the report and the verb -----------------------------------------------------------------------------------------


def test_the_report_has_a_page_a_group_and_escapes_names(known: Ablation, ablated: Ablation, tmp_path):
    built = pages.report(known)
    assert [page.id for page in built.pages] == ["k_pos", "refused", "study", "numbers"]
    text = report.write(built, tmp_path).read_text()
    assert "the paper's column is of LLaVA-1.5-7B at 64 tokens" in text.replace(
        "&#39;", "'"
    ) and ">92.1<" in text.replace("\n", "").replace(" ", "")
    group = known.groups[0]
    row = group.rows[0].model_copy(update={"variant": "<script>alert(1)</script>", "status": "failed", "reason": "<b>"})
    other = known.model_copy(update={"groups": [group.model_copy(update={"rows": [*group.rows, row]})]})
    text = report.write(pages.report(other), tmp_path).read_text()
    assert "<script>alert(1)" not in text and "<b>" not in text.split("<main>")[1].split("</main>")[0]
    reasons = report.write(pages.report(ablated), tmp_path).read_text()
    assert all(str(refused.reason).split(":")[0] in reasons for _, refused in ablated.refusals)


def test_the_verb_prints_a_document_or_tables_and_is_rebuilt(tiny_study: Study, tmp_path, capsys):
    out = tmp_path / "out"
    line = ["ablate", "--model", tiny_study.model, "--image", tiny_study.image, "--prompt", "What is this?"]
    line += ["--new-tokens", "2", "--retention", "0.6", "--only", "saliency", "--device", "cpu"]
    line += ["--cell-seconds", "0.01", "--precision", "0.5", "--out", str(out)]
    assert run([*line, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert {"format", "version", "environment", "study", "dense", "groups", "report"} == set(document)
    assert [[row["variant"] for row in group["rows"]] for group in document["groups"]] == [["tail", "autograd"]]
    tail, autograd = document["groups"][0]["rows"]
    assert tail["default"] and not autograd["default"] and autograd["options"] == {"saliency": "autograd"}
    assert autograd["selection_macs"] > tail["selection_macs"]
    assert autograd["kl_nats"]["median"] == pytest.approx(tail["kl_nats"]["median"], rel=1e-3, abs=1e-9)
    first = (out / "report.html").read_text()
    assert run(["report", str(out), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == document
    assert (out / "report.html").read_text() == first
    assert run(line) == 0
    printed = capsys.readouterr().out
    assert "saliency on" in printed and "tail *" in printed


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--only", "depth"], "ablation 'depth': choose k_pos, threshold, layers, probe, saliency"),
        (["--retention", "0.3,x"], "--retention '0.3,x' is not a comma list"),
        (["--retention", "1.3"], "retentions.0 = 1.3"),
        (["--asked", "0"], "--asked 0: an ablation needs at least 1"),
        (["--model", "nonsense"], "unknown model 'nonsense'"),
        (["--option", "depth=3"], "option 'depth' belongs to none of the methods trio"),
    ],
)
def test_bad_input(arguments, said, tmp_path, capsys):
    code = run(["ablate", *arguments, "--out", str(tmp_path / "out")])
    heard = capsys.readouterr()
    assert code == 2, heard
    assert said in heard.err and heard.err.count("error: ") == 1 and "Traceback" not in heard.err
    assert not (tmp_path / "out").exists()
