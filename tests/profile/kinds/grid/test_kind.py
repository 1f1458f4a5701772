"""`trio-profile ablate`: which variants there are, one document of them, and what is refused."""

from importlib.resources import files

import pytest
import yaml

from tests.profile import examples
from tests.profile.command import complaint
from tests.profile.studying import make, plan
from trio_core import methods
from trio_profile.cost.printed import ABLATIONS
from trio_profile.errors import StudyError
from trio_profile.inputs.catalogue import num_layers
from trio_profile.inputs.variants import nearby_layers, variants_of
from trio_profile.kinds.grid import run as local
from trio_profile.kinds.grid.ablate import Ablation, ablate
from trio_profile.records.contents import Contents
from trio_profile.records.schema import Study
from trio_profile.records.store import to_toml
from trio_profile.study import asked

pytestmark = pytest.mark.usefixtures("without_fvcore")
GROUPS = ["k_pos", "threshold", "layers", "probe", "saliency"]


@pytest.fixture(scope="module")
def study(tiny_study: Study) -> Study:
    fields = {"verb": "ablate", "retentions": (0.6,), "seconds": 0.01, "fidelity_inputs": 1}
    plain = tiny_study.model_copy(update=fields)
    variants = variants_of(plain, ("layers", "probe"))
    few = dict(list(variants["layers"].items())[:3])
    return plain.model_copy(update={"ablations": {**variants, "layers": few}})


@pytest.fixture(scope="module")
def contents(study: Study, tmp_path_factory) -> Contents:
    return local.run(study, tmp_path_factory.mktemp("ablated"), keep_refusals=True)


@pytest.fixture(scope="module")
def ablated(contents: Contents) -> Ablation:
    return ablate(contents)


def test_the_variants_of_the_paper_are_measured():
    """At its depth, under the names that its tables have: data/claims/trio-2026.yaml was copied from them."""
    found = variants_of(Study(model="llava-1.5-7b"))
    assert list(found) == GROUPS
    tables = yaml.safe_load((files("trio_profile") / "data/claims/trio-2026.yaml").read_text())["tables"]
    of_default = {"k_pos": "4", "threshold": "0.80", "layer_sensitivity": "1, 10, 15"}
    for table, default in of_default.items():
        group = "layers" if table == "layer_sensitivity" else table
        rows = {row: next(iter(claimed["figures"].values())) for row, claimed in tables[table]["rows"].items()}
        printed = {default if row == "trio" else _named(row): value for row, value in rows.items()}
        assert printed == ABLATIONS[group]
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
    asked = asked.model_copy(update={"ablations": variants_of(asked)})
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


def test_layers_are_moved_by_one_alone_and_together():
    assert nearby_layers((1, 5, 8)) == [
        (1, 5, 8),
        *((1, 4, 7), (1, 6, 9)),
        *((2, 5, 8), (1, 4, 8), (1, 6, 8), (1, 5, 7), (1, 5, 9)),
    ]
    assert nearby_layers((3,)) == [(3,), (2,), (4,)]
    assert nearby_layers((2, 6)) == [(2, 6), (2, 5), (2, 7), (1, 6), (3, 6)]


def test_the_options_of_the_study_are_the_default_variant():
    asked = Study(layers=(2, 6), options={"k_pos": 12, "nms": False, "saliency": "autograd"})
    found = variants_of(asked)
    assert next(iter(found["k_pos"].items())) == ("unchanged", {})
    assert found["k_pos"]["4"] == {"k_pos": 4}
    assert found["threshold"]["none"] == {} and found["threshold"]["0.80"] == {"nms": True}
    assert found["layers"]["2, 6"] == {}
    assert found["saliency"] == {"tail": {"saliency": "tail"}, "autograd": {}}


def test_ablations_are_read_back_from_a_study_file(study: Study, tmp_path):
    (tmp_path / "study.toml").write_text(to_toml(study))
    assert asked.make("ablate", {}, tmp_path / "study.toml") == study
    with pytest.raises(StudyError, match="a study of kind 'sweep' has no such field"):
        make(ablations=study.ablations)


def test_every_variant_has_a_row_and_the_default_is_in_every_group(ablated: Ablation, study: Study):
    assert [group.name for group in ablated.groups] == ["layers", "probe"]
    for group in ablated.groups:
        assert [row.variant for row in group.rows] == list(study.ablations[group.name])
        [default] = [row for row in group.rows if row.default]
        assert default.status == "done"
        for row in group.at(0.6):
            assert row.prefill_speedup and row.counted_macs and row.selection_macs and row.kl_nats_mean
    probe = {row.variant: row for row in ablated.groups[1].rows}
    default = next(row for row in ablated.groups[0].rows if row.default)
    assert probe["next, last"] == default.model_copy(update={"variant": "next, last"})


def test_a_variant_without_a_schedule_is_listed_with_its_reason(ablated: Ablation):
    """The checkpoint has few layers: a stage that is moved onto another, or past the last one, is none."""
    reasons = {row.variant: str(row.reason) for row in ablated.summaries if row.status != "done"}
    assert reasons
    says = ("must ascend", "can be pruned after layers", "cannot be reached")
    assert all(any(part in reason for part in says) for reason in reasons.values())
    assert ablated.groups[0].rows != ablated.groups[0].at(0.6)


def test_an_option_of_tasks_needs_tasks(capsys):
    assert "limit = 3: no task is named; give --tasks" in complaint(capsys, "ablate", "--limit", "3")
