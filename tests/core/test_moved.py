"""Modules that have moved: each name that they had still resolves, and a warning says where it is now."""

import importlib

import pytest

MOVED = {
    "trio_core.method": "Positions BudgetRule Stage Reference LayerShape Sizes registry Method ScoreMethod",
    "trio_core.view": "Probe Rows Signal Picture Encoder Embeddings View last_rows Selection",
    "trio_core.selection": "nms_select top_k stride cosine farthest_point dpp_map facility_location shares "
    "crop_by_crop",
}
"""Old module → the public names that it had."""


@pytest.mark.parametrize("old", MOVED)
def test_an_old_name_is_the_new_one_and_warns(old, request):
    module = importlib.import_module(old)
    for name in MOVED[old].split():
        with pytest.warns(DeprecationWarning, match=rf"^{old}\.{name} has moved: import it from ") as seen:
            value = getattr(module, name)
        assert len(seen) == 1
        if not request.config.getoption("--shapes"):  # the shape check wraps the function that warns
            assert seen[0].filename == __file__, "the warning points at the line that imports"
        new = str(seen[0].message).rpartition(" ")[2]
        assert value is getattr(importlib.import_module(new), name)
    with pytest.raises(AttributeError, match=f"module '{old}' has no attribute 'nothing'"):
        _ = module.nothing
