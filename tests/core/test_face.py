"""Each public name is there, and importing them costs nothing."""

import subprocess
import sys

import pytest

import trio_core


def test_each_name_of_the_face_is_there():
    assert sorted(trio_core.__all__) == trio_core.__all__
    assert {"prune", "Trio", "Method", "Schedule", "Trace", "View", "methods", "nms_select"} <= {*trio_core.__all__}
    for name in trio_core.__all__:
        assert getattr(trio_core, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'pruner'"):
        _ = trio_core.pruner


def test_every_built_in_method_class_can_be_imported_from_the_face():
    for name in trio_core.methods.names():
        cls = trio_core.methods.find(name)
        assert getattr(trio_core, cls.__name__) is cls


def test_importing_does_not_import_torch():
    modules = "trio_core, trio_core.rules.schedule, trio_core.rules.cost, trio_core.errors, trio_core.spans"
    lines = f"import sys, {modules}; sys.exit('torch' in sys.modules or 'transformers' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", lines], check=False).returncode == 0
