"""Several studies side by side: what is unlike, and the ratios of their speed-ups."""

from math import hypot, log

import pytest

from tests.profile.documents import swept
from tests.profile.examples import answered, document, environment, measurement, session, study
from trio_profile.analysis.side_by_side import SideBySide, side_by_side
from trio_profile.analysis.sweep import SweepDocument
from trio_profile.errors import StudyError
from trio_profile.records.schema import FileDigest


def unlike(found: SideBySide) -> dict[str, tuple]:
    return {one.name: one.values for one in found.unlike}


def test_studies_that_are_alike_have_nothing_unlike():
    found = side_by_side(["A", "B"], [swept(), swept(seed=1)])
    assert found.unlike == () and [side.name for side in found.sides] == ["A", "B"]


def test_what_is_unlike_is_named_with_both_values():
    other = swept(model="qwen2.5-vl-7b", dtype="float16")
    where = environment(device_name="NVIDIA A100", torch="2.12.0", commit="beef")
    other = other.model_copy(update={"environment": where, "sessions": (session(environment=where),)})
    found = side_by_side(["A", "B"], [swept(), other])
    assert unlike(found) == {
        "device_name": ("NVIDIA H200", "NVIDIA A100"),
        "torch": ("2.11.0", "2.12.0"),
        "model": ("llava-1.5-7b", "qwen2.5-vl-7b"),
        "dtype": ("bfloat16", "float16"),
        "commit": ("0f3c2a91d7", "beef"),
    }
    assert [one.about for one in found.unlike] == ["machine", "versions", "model", "model", "code"]


def test_the_device_belongs_to_the_machine_and_seed_and_questions_to_the_input():
    other = swept()
    asked = other.study.model_copy(update={"device": "cpu", "seed": 1, "fidelity_inputs": 10})
    found = side_by_side(["A", "B"], [swept(), other.model_copy(update={"study": asked})])
    assert {one.name: one.about for one in found.unlike} == {
        "device": "machine",
        "seed": "input",
        "fidelity_inputs": "input",
    }


def test_another_file_of_the_same_name_is_unlike():
    def with_checkpoint(sha256: str) -> SweepDocument:
        inputs = {name: FileDigest(bytes=3, sha256=sha256) for name in ("model/model.safetensors",)}
        inputs["model/config.json"] = FileDigest(bytes=3, sha256="same")
        return swept().model_copy(update={"sessions": (session(inputs=inputs),)})

    found = side_by_side(["A", "B"], [with_checkpoint("aa"), with_checkpoint("bb")])
    assert unlike(found) == {"model": ("model/model.safetensors aa", "model/model.safetensors bb")}
    assert side_by_side(["A", "B"], [with_checkpoint("aa")] * 2).unlike == ()


def test_a_ratio_adds_the_errors_of_both_studies():
    first, other = swept(), swept(factor=1.5, seed=3)
    cells = side_by_side(["A", "B"], [first, other]).cells
    assert cells[0].prefill_ratios[0] is None
    ratio, base, new = cells[0].prefill_ratios[1], first.cells[0].prefill_speedup, other.cells[0].prefill_speedup
    assert ratio is not None and base is not None and new is not None
    assert ratio.value == pytest.approx(new.value / base.value) == pytest.approx(1 / 1.5, rel=0.03)
    widths = [log(one.ci95[1] / one.ci95[0]) for one in (ratio, base, new)]
    assert widths[0] == pytest.approx(hypot(*widths[1:]))
    assert (ratio.samples, ratio.sessions) == (48, 4) and ratio.ci95[1] < 1


def test_two_studies_on_a_cpu_may_differ_by_the_state_of_the_machine():
    on_gpu, on_cpu = (
        side_by_side(["A", "B"], [swept(device=device), swept(device=device, seed=1)]).cells[0].prefill_ratios[1]
        for device in ("cuda", "cpu")
    )
    assert on_cpu.value == on_gpu.value
    assert on_cpu.ci95[0] < on_gpu.ci95[0] and on_gpu.ci95[1] < on_cpu.ci95[1]


def test_a_cell_that_one_study_lacks_has_no_ratio():
    found = side_by_side(["A", "B"], [swept(retentions=(0.11,)), swept(retentions=(0.11, 0.55))])
    assert [(cell.method, cell.nominal_retention) for cell in found.cells] == [("trio", 0.11), ("trio", 0.55)]
    assert found.cells[1].cells[0] is None and found.cells[1].prefill_ratios == (None, None)


def test_unequal_counts_are_named():
    first, other = swept(), swept()
    cell = other.cells[0].model_copy(update={"kv_bytes": 1, "budgets": (1, 2, 3)})
    found = side_by_side(["A", "B"], [first, other.model_copy(update={"cells": [cell, other.cells[1]]})])
    assert [one.unequal for one in found.cells] == [("kv_bytes", "budgets"), ()]


def test_accuracies_are_compared_as_two_samples():
    asked = study(retentions=(0.11,))
    unpruned, better = answered([measurement()], needs=0.1)
    _, worse = answered([measurement()], needs=0.6)
    documents = [document(asked, cells, unpruned=unpruned) for cells in (better, worse)]
    [cell] = side_by_side(["A", "B"], documents).cells
    less = cell.accuracy_differences[1]
    first, other = (one.accuracy for one in cell.cells)
    assert less is not None and less.value == pytest.approx(other.value - first.value)
    assert less.ci95[0] < less.value < less.ci95[1] < 0


def test_the_document_survives_json():
    found = side_by_side(["A", "B"], [swept(), swept(model="other")])
    assert SideBySide.model_validate_json(found.model_dump_json()) == found


def test_one_study_is_refused():
    with pytest.raises(StudyError, match="1 study is nothing to compare"):
        side_by_side(["A"], [swept()])
