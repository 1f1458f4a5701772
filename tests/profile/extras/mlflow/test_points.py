"""Studies as points of curves."""

import pytest

from tests.profile.documents import KEPT, evaluation
from tests.profile.examples import document, study
from trio_profile.analysis.table_rows import rows_of
from trio_profile.extras.mlflow.points import Point, points_of
from trio_profile.studies import running


def curve_of(points: list[Point], quantity: str, curve: str) -> dict[int, float]:
    """The values of a curve by their step."""
    return {point.step: point.value for point in points if (point.quantity, point.curve) == (quantity, curve)}


def test_a_method_is_one_curve_over_the_retention_in_thousandths():
    found = document(study(methods=("trio", "fastv"), retentions=(0.222, 0.55)))
    points = points_of(found)
    for method in ("trio", "fastv"):
        cells = [cell for cell in found.cells if cell.method == method]
        expected = {round(1000 * cell.nominal_retention): cell.prefill_speedup for cell in cells}
        assert list(expected) == [222, 550]
        assert curve_of(points, "prefill_speedup", method) == {step: one.value for step, one in expected.items()}
        assert curve_of(points, "prefill_speedup_low", method) == {step: one.ci95[0] for step, one in expected.items()}
        assert curve_of(points, "prefill_speedup_high", method) == {step: one.ci95[1] for step, one in expected.items()}


def test_what_was_asked_and_what_is_no_number_is_no_point():
    quantities = {point.quantity for point in points_of(document(study(retentions=(0.22,))))}
    assert "retention_realised" in quantities and "counted_macs" in quantities
    assert quantities & {"seed", "batch", "new_tokens", "nominal_retention", "method", "status", "pareto"} == set()


def test_a_sweep_has_its_break_even():
    found = document()
    crossing = found.break_even["prefill_ms"]
    points = points_of(found)
    assert curve_of(points, "prefill_ms_break_even", "trio") == {0: crossing.retention}
    assert curve_of(points, "prefill_ms_break_even_low", "trio") == {0: crossing.ci95[0]}


def test_a_task_of_each_method_is_a_curve_and_dense_keeps_all():
    points = points_of(evaluation())
    assert curve_of(points, "score", "dense GQA") == {1000: 61.9}


@pytest.mark.parametrize("kind", KEPT)
def test_no_two_points_of_any_kind_have_one_place(kind, tmp_path):
    KEPT[kind](tmp_path)
    found = running.read(tmp_path)
    points = points_of(found.document, found.kind.rows)
    assert points and len({(point.quantity, point.curve, point.step) for point in points}) == len(points)


def test_retentions_that_share_a_step_are_two_curves():
    points = points_of(document(study(retentions=(0.111, 0.1112))))
    assert set(curve_of(points, "prefill_ms", "trio")) == set(curve_of(points, "prefill_ms", "trio 2")) == {111}


def test_a_document_without_rows_has_no_points(tmp_path):
    KEPT["flops"](tmp_path)
    found = running.read(tmp_path).document
    assert points_of(found) == [] and len(points_of(found, "terms")) == len(rows_of(found, "terms"))
