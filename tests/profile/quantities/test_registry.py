"""Quantities are found in the files of their folder, and follow into every table and export."""

import subprocess
import sys

from trio_profile.quantities.registry import COLUMNS, FURTHER, QUANTITIES

NEW_FILE = """
from trio_profile.quantities.entries import Entry
from trio_profile.quantities.quantity import Column, Quantity

LAUNCHED = Quantity(
    name="launched_kernels",
    label="Kernels",
    summarise=lambda record: record.launches,
    columns=(Column("kernels", lambda cell, _: Entry(str(cell.launched_kernels))),),
)
"""
READ_IT = """
import sys
from trio_profile import quantities
quantities.__path__.append(sys.argv[1])
from tests.profile.examples import dense, document, measurement, study
from trio_profile.analysis.table_rows import rows_of
from trio_profile.findings import sweep
cells = [measurement(retention=share).model_copy(update={"launches": 7}) for share in (0.11, 0.33)]
found = document(study(retentions=(0.11, 0.33)), cells, unpruned=dense().model_copy(update={"launches": 9}))
assert '"launched_kernels":7' in found.model_dump_json()
assert found.dense.launched_kernels == 9
assert found.break_even["launched_kernels"].status == "always"
assert [row["launched_kernels"] for row in rows_of(found)] == [7, 7]
tables = [block for block in sweep.verdict_page(found).blocks if block.kind == "table"]
assert "kernels" in tables[0].columns
assert any("Kernels" in row[0].text for row in tables[-1].rows)
"""


def test_quantities_stand_in_the_order_of_the_json():
    timed = [name for name, quantity in QUANTITIES.items() if quantity.label]
    assert timed == ["prefill_ms", "total_ms", "fastv_macs", "counted_macs", "kv_bytes", "energy_j"]
    assert FURTHER == ()


def test_no_two_columns_have_one_name():
    names = [column.name for quantity in QUANTITIES.values() for column in quantity.columns]
    assert len(names) == len(set(names)) == len(COLUMNS)


def test_a_quantity_is_one_file(tmp_path):
    (tmp_path / "launched_kernels.py").write_text(NEW_FILE)
    done = subprocess.run([sys.executable, "-c", READ_IT, str(tmp_path)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
