"""Quantities are found in the files of their folder. `tests/test_contributing.py` adds one."""

from trio_profile.quantities.registry import COLUMNS, FURTHER, QUANTITIES


def test_quantities_stand_in_the_order_of_the_json():
    timed = [name for name, quantity in QUANTITIES.items() if quantity.label]
    assert timed == ["prefill_ms", "total_ms", "fastv_macs", "counted_macs", "kv_bytes", "energy_j"]
    assert FURTHER == ()


def test_no_two_columns_have_one_name():
    names = [column.name for quantity in QUANTITIES.values() for column in quantity.columns]
    assert len(names) == len(set(names)) == len(COLUMNS)
