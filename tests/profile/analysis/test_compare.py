import pytest

from tests.profile import examples
from trio_profile.analysis.compare import compare
from trio_profile.records.schema import Fidelity, Measurement


def test_the_pareto_front_compares_methods_at_one_retention():
    """Medians that are made up: at 0.3 trio is faster and farther, grid slower and nearer, random beaten by both."""

    def cell(method: str, prefill_ms: float, kl: float) -> Measurement:
        told = Fidelity(kl_nats=(kl,), top1=(kl < 0.3,))
        cell = examples.with_pairs(examples.measurement(method, 0.3), [examples.pair(100, prefill_ms)] * 6)
        return cell.model_copy(update={"fidelity": told})

    study = examples.study(("a", "b", "c"), retentions=(0.3,))
    cells = [cell("c", 60, 0.2), cell("a", 25, 0.4), cell("b", 50, 0.1)]
    found = compare(study, examples.environment(), examples.dense(), cells)
    assert [(row.method, row.pareto) for row in found.rows] == [("a", True), ("b", True), ("c", False)]


def test_answers_are_paired_with_the_reference_method():
    """200 questions: one method loses 30 that trio answers and gains 5, one swaps four, one gains 20."""
    stands = [True] * 120 + [False] * 80
    others = {
        "trio": stands,
        "random": [False] * 30 + [True] * 95 + [False] * 75,
        "lookahead": [False] * 4 + [True] * 120 + [False] * 76,
        "scope": [True] * 140 + [False] * 60,
    }
    kinds = ("1 hop", "2 hops") * 100
    dense = examples.dense().model_copy(update={"correct": (True,) * 150 + (False,) * 50, "kinds": kinds})

    def cell(method: str, correct: list[bool]) -> Measurement:
        seen = Fidelity(kl_nats=(0.1,) * 200, top1=tuple(correct), same=tuple(correct), correct=tuple(correct))
        return examples.measurement(method, 0.3).model_copy(update={"fidelity": seen})

    study = examples.study(tuple(others), retentions=(0.3,), verb="compare")
    found = compare(study, examples.environment(), dense, [cell(*pair) for pair in others.items()])
    assert found.reference == "trio"
    apart = {row.method: row.reference_difference for row in found.rows}
    assert apart.pop("trio") is None
    assert {method: seen and seen.value for method, seen in apart.items()} == pytest.approx(
        {"random": -0.125, "lookahead": 0.0, "scope": 0.1}
    )
    alone = compare(examples.study(("scope", "random"), retentions=(0.3,)), examples.environment(), dense, [])
    assert alone.reference == "scope"
