"""The recommendation of a study of servers, for each outcome."""

import pytest

from tests.profile.documents import endpoints_document
from trio_profile.kinds.servers.advice import recommendation
from trio_profile.kinds.servers.document import AtLoad


def _widened(at: AtLoad) -> AtLoad:
    """The same load with an interval of the throughput's gain that contains 1."""
    gain = at.gains["throughput"].model_copy(update={"ci95": (0.9, 2.5)})
    return at.model_copy(update={"gains": {"throughput": gain}})


@pytest.mark.parametrize(
    ("wide", "says"),
    [
        ((), "Use the dense model at a concurrency of 8: the gain in throughput is 0."),
        ((4, 8), "At a concurrency of 4 and 8 these rounds do not decide; measure longer."),
        ((1, 2, 4, 8), "At a concurrency of 1, 2, 4 and 8 these rounds do not decide; measure longer."),
    ],
)
def test_only_a_load_whose_own_interval_does_not_contain_1_is_advised(wide, says):
    document = endpoints_document()
    loads = [at.model_copy(update={"gains": {"throughput": at.gains["throughput"]}}) for at in document.loads[:4]]
    loads = tuple(_widened(at) if at.load in wide else at for at in loads)
    line = next(recommendation(document.model_copy(update={"loads": loads})))
    assert says in line
    assert ("Use pruning at a concurrency of 1" in line) == (1 not in wide)
    assert "The gain is 1 at a concurrency of 5." in line


def test_a_load_without_a_gain_is_not_promised():
    document = endpoints_document()
    first, *others = (at.model_copy(update={"gains": {}}) for at in document.loads)
    first = first.model_copy(update={"gains": document.loads[0].gains})
    assert next(recommendation(document.model_copy(update={"loads": (first, *others), "break_even": ()}))).startswith(
        "Use pruning at a concurrency of 1: the gain in goodput is "
    )
    nothing = document.model_copy(update={"loads": tuple(others), "break_even": ()})
    assert "no concurrency has two rounds with a gain in throughput" in next(recommendation(nothing))
