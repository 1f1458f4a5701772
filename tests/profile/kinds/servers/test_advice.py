"""What a study of servers recommends, for each outcome."""

import pytest

from tests.profile.documents import endpoints_document
from trio_profile.kinds.servers.advice import recommendation
from trio_profile.kinds.servers.document import EndpointsDocument, LoadBreakEven


def with_break_evens(*break_evens: LoadBreakEven) -> EndpointsDocument:
    return endpoints_document().model_copy(update={"break_even": break_evens})


def _break_even(**fields) -> LoadBreakEven:
    return LoadBreakEven(**{"quantity": "throughput", "loop": "closed", "measured": (1, 8), **fields})


@pytest.mark.parametrize(
    ("pays", "ci95", "says"),
    [
        ("below", (3.1, 3.9), "Use pruning up to a concurrency of 3, and the dense model above it, judged by"),
        ("below", (2.5, 5.6), "Use pruning up to a concurrency of 2, and the dense model from 6 on, judged by"),
        ("above", (2.5, 3.6), "Use the dense model up to a concurrency of 2, and pruning from 4 on, judged by"),
        ("below", (1.0, 1.86), "Use the dense model from a concurrency of 2 on, judged by throughput. Below it is not"),
        ("below", (5.0, 8.0), "Use pruning up to a concurrency of 5, judged by throughput. Above it is not decided"),
        ("above", (5.0, 8.0), "Use the dense model up to a concurrency of 5, judged by throughput. Above it is not"),
        ("below", (1.0, 8.0), "Measure longer: the interval of the break-even in throughput reaches from the lowest"),
    ],
)
def test_only_what_the_interval_decides_is_advised(pays, ci95, says):
    one = _break_even(status="crossing", load=sum(ci95) / 2, ci95=ci95, pays=pays)
    (line,) = recommendation(with_break_evens(one))
    assert line.startswith(says)
