"""The chart of all methods and retentions."""

from tests.profile.judge.test_front import cell
from trio_profile.quantities.summary import CellSummary
from trio_profile.records.estimate import Nats
from trio_profile.report import pareto
from trio_profile.report.blocks import Chart


def placed(method: str, retention: float, speedup: float, mean_kl: float) -> CellSummary:
    """A cell without known answers."""
    nats = Nats(value=mean_kl, ci95=(mean_kl / 2, mean_kl * 2), samples=20, stopped="budget")
    return cell(method, retention, speedup).model_copy(update={"kl_nats_mean": nats})


def drawn(*cells: CellSummary) -> Chart:
    methods = tuple(dict.fromkeys(one.method for one in cells))
    found = pareto.chart(cells, methods, None)
    assert found is not None
    return found


CELLS = (
    placed("trio", 0.3, 1.5, 0.2),
    placed("trio", 0.1, 2.0, 0.9),
    placed("grid", 0.3, 1.6, 0.1),
    placed("fastv", 0.3, 1.2, 0.5),
)


def test_a_line_joins_the_retentions_of_a_method_lowest_first():
    trio = next(one for one in drawn(*CELLS).series if one.name == "trio")
    assert (list(trio.x), list(trio.y)) == ([2.0, 1.5], [0.9, 0.2])


def test_the_front_holds_what_no_other_cell_beats():
    """trio at 30 % is slower and farther from dense than grid, fastv as well."""
    front = drawn(*CELLS).series[0]
    assert (front.name, list(front.x), list(front.y)) == ("Pareto front", [1.6, 2.0], [0.1, 0.9])


def test_methods_off_the_front_are_quiet():
    assert {one.name: one.quiet for one in drawn(*CELLS).series[1:]} == {"trio": False, "grid": False, "fastv": True}


def test_only_the_front_is_labelled():
    labels = {one.name: list(one.labels) for one in drawn(*CELLS).series[1:]}
    assert labels == {"trio": ["trio 10 %", ""], "grid": ["grid 30 %"], "fastv": [""]}


def test_a_chart_of_one_method_names_retentions_only():
    [_, trio] = drawn(*CELLS[:2]).series
    assert list(trio.labels) == ["10 %", "30 %"]


def test_up_is_better_so_the_axis_of_divergence_is_turned_round():
    axis = drawn(*CELLS).y
    assert axis.low is not None and axis.high is not None and axis.low > 0.9 and axis.high < 0.1


def test_without_a_quality_there_is_no_chart():
    assert pareto.chart([cell("trio", 0.3, 1.5)], ("trio",), None) is None


def test_readers_pick_methods_where_there_are_several():
    assert drawn(*CELLS).picker and not drawn(*CELLS[:2]).picker
