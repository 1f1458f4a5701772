"""Modules that have moved: every name that they had is still there, and a warning says where it is now."""

import importlib
import re

import pytest

MOVED = {
    "trio_core.method": {
        "Positions": "trio_core.methods.method",
        "BudgetRule": "trio_core.methods.method",
        "Stage": "trio_core",
        "Reference": "trio_core",
        "LayerShape": "trio_core",
        "Sizes": "trio_core",
        "registry": "trio_core.methods.method",
        "Method": "trio_core",
    },
    "trio_core.view": {
        "Probe": "trio_core.methods.view",
        "Rows": "trio_core.methods.view",
        "Signal": "trio_core",
        "Picture": "trio_core",
        "Encoder": "trio_core.models.encoder",
        "Embeddings": "trio_core.methods.view",
        "View": "trio_core",
        "last_rows": "trio_core.methods.view",
        "Selection": "trio_core",
    },
    "trio_core.selection": {
        "nms_select": "trio_core.rules.nms",
        "top_k": "trio_core.rules.selection",
        "stride": "trio_core.rules.selection",
        "cosine": "trio_core.rules.selection",
        "farthest_point": "trio_core.rules.selection",
        "dpp_map": "trio_core.rules.selection",
        "facility_location": "trio_core.rules.selection",
        "shares": "trio_core.rules.schedule",
        "crop_by_crop": "trio_core.methods.crops",
        "CropRule": "trio_core.methods.crops",
        "merge_by_crop": "trio_core.methods.crops",
    },
}
"""Old module → each public class, function and constant that it had → the module that has it now."""


@pytest.mark.parametrize(
    ("old", "name", "new"), [(old, name, new) for old, names in MOVED.items() for name, new in names.items()]
)
def test_an_old_name_is_the_new_one_and_warns(old, name, new, request):
    module = importlib.import_module(old)
    with pytest.warns(DeprecationWarning, match=rf"^{re.escape(old)}\.{name} has moved: import it from {new}$") as seen:
        found = getattr(module, name)
    assert len(seen) == 1
    if not request.config.getoption("--shapes"):  # the shape check wraps the function that warns
        assert seen[0].filename == __file__, "the warning points at the line that imports"
    assert found is getattr(importlib.import_module(new), name)


@pytest.mark.parametrize("old", MOVED)
def test_a_name_that_was_never_there_is_an_attribute_error(old):
    with pytest.raises(AttributeError, match=f"module '{old}' has no attribute 'nothing'"):
        _ = importlib.import_module(old).nothing
