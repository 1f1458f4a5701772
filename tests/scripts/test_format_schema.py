"""docs/reference/schema and docs/reference/format.md describe the files as the records are."""

import json
import runpy
from pathlib import Path

import pytest

from tests.profile import examples
from tests.profile.documents import keep
from trio_profile.records.log import RECORDS
from trio_profile.records.record import VERSION
from trio_profile.records.schema import Answers

ROOT = Path(__file__).parents[2]
SCRIPT = runpy.run_path(str(ROOT / "scripts" / "format_schema"))
TEXTS: dict[str, str] = SCRIPT["texts"]()
PAGE = (ROOT / "docs" / "reference" / "format.md").read_text()


@pytest.mark.parametrize("name", TEXTS)
def test_the_schemas_are_up_to_date(name):
    assert (ROOT / "docs" / "reference" / "schema" / name).read_text() == TEXTS[name], "run scripts/format_schema"


def test_a_line_has_the_fields_of_its_schema(tmp_path):
    schema = json.loads(TEXTS["measurements.schema.json"])
    store = keep(tmp_path, examples.study(), [examples.measurement(pairs=1)])
    store.append(examples.picture(), Answers(numbers=(0,), correct=(True,), session=examples.SESSION))
    records = [json.loads(line) for line in store.path.read_text().splitlines()]
    assert {record["record"] for record in records} == set(RECORDS)
    for record in records:
        name = schema["discriminator"]["mapping"][record["record"]].rpartition("/")[2]
        described = schema["$defs"][name]
        assert set(described.get("required", ())) <= set(record) <= set(described["properties"])


def test_the_page_names_every_record_and_the_version():
    for name in RECORDS:
        assert f"| `{name}` |" in PAGE
    assert f"| {VERSION} |" in PAGE
