"""Quantities of servers: each record says all of its quantity, so that another one may be put before it."""

import pytest

from tests.profile.documents import endpoints_document
from tests.profile.reading import table
from trio_profile.kinds.servers.quantities import QUANTITIES, Quantity
from trio_profile.kinds.servers.report import report
from trio_profile.records.estimate import MillisecondsOverRounds


@pytest.fixture
def slowest():
    """A quantity that is inserted after the first one."""
    first, *others = before = list(QUANTITIES.items())
    time = Quantity("slowest_ms", "slowest", MillisecondsOverRounds, lambda answers: answers.quantile("ttft_ms", 1.0))
    QUANTITIES.clear()
    QUANTITIES.update([first, (time.name, time), *others])
    yield time.name
    QUANTITIES.clear()
    QUANTITIES.update(before)


def test_a_quantity_that_is_inserted_moves_no_break_even(request):
    before = endpoints_document()
    name = request.getfixturevalue("slowest")
    after = endpoints_document()
    assert after.break_even == before.break_even
    loads = zip(before.loads, after.loads, strict=True)
    assert all(at.gains == {key: gain for key, gain in new.gains.items() if key != name} for at, new in loads)
    assert after.loads[0].gains[name].value == pytest.approx(2, rel=0.05) and name in after.loads[0].dense.model_extra
    assert list(table(report(after), "Gain of pruning by concurrency").columns)[1:3] == ["throughput", "slowest"]
    assert "slowest" not in str(table(report(after), "Where pruning pays, by concurrency"))
