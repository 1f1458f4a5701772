"""Quantities of servers: each record says all of its quantity, so that another one may be put before it."""

import json
import subprocess
import sys

import pytest

from tests.places import PYTHONPATH
from tests.profile.kinds.servers.kept import endpoints_document

INSERTED = """
from trio_profile.kinds.servers.quantities import QUANTITIES, Quantity
from trio_profile.records.estimate import MillisecondsOverRounds

first, *others = QUANTITIES.items()
slowest = Quantity("slowest_ms", "slowest", MillisecondsOverRounds, lambda answers: answers.quantile("ttft_ms", 1.0))
QUANTITIES.clear()
QUANTITIES.update([first, (slowest.name, slowest), *others])

import json
from tests.profile.kinds.servers.kept import endpoints_document
from tests.profile.reading import table
from trio_profile.kinds.servers.document import EndpointsDocument
from trio_profile.kinds.servers.report import report

document = EndpointsDocument.model_validate_json(endpoints_document().model_dump_json(), extra="ignore")
arms, gains, crossings = (
    table(report(document), caption)
    for caption in ("Each arm by concurrency", "Gain of pruning by concurrency", "Break-even, by concurrency")
)
rows = [row[0].text for row in crossings.rows]
print(json.dumps([document.model_dump(mode="json"), arms.columns, gains.columns, rows]))
"""
"""Puts a quantity after the first one, and prints a document that was kept and read again, and names in its tables."""


@pytest.mark.slow
def test_a_quantity_that_is_inserted_is_kept_and_shown_and_moves_no_break_even():
    command, environment = [sys.executable, "-c", INSERTED], {"PYTHONPATH": PYTHONPATH}
    printed = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
    before, (after, arms, gains, crossings) = endpoints_document().model_dump(mode="json"), json.loads(printed)
    assert after["break_even"] == before["break_even"]
    for old, new in zip(before["loads"], after["loads"], strict=True):
        assert new["dense"].pop("slowest_ms")["value"] == pytest.approx(old["dense"]["ttft_p99_ms"]["value"])
        assert new["gains"].pop("slowest_ms") and new["pruned"].pop("slowest_ms")
        assert new == old
    assert (arms[2:4], gains[1:3]) == (["throughput", "slowest"],) * 2
    assert crossings == ["throughput", "goodput", "TTFT p50", "TTFT p95", "TTFT p99"]
