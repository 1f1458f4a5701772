"""The public face is these names, and importing it costs nothing."""

import subprocess
import sys

import pytest

import trio_core

FACE = [
    "LayerShape",
    "Method",
    "OptionError",
    "Picture",
    "PromptSizes",
    "Reference",
    "RetentionError",
    "Sample",
    "Schedule",
    "ScoreMethod",
    "Selection",
    "Signal",
    "Sizes",
    "Stage",
    "StageTrace",
    "Trace",
    "Trio",
    "TrioError",
    "UnknownName",
    "UnsupportedInput",
    "UnsupportedModel",
    "View",
    "methods",
    "nms_select",
    "prune",
    "top_k",
]


def test_the_face_is_these_names_and_each_is_there():
    assert sorted(trio_core.__all__) == trio_core.__all__ == FACE
    for name in FACE:
        assert getattr(trio_core, name) is not None


def test_every_built_in_method_class_can_be_imported_from_the_face():
    for name in trio_core.methods.names():
        cls = trio_core.methods.find(name)
        assert getattr(trio_core, cls.__name__) is cls


def test_errors_form_one_tree():
    assert issubclass(trio_core.RetentionError, trio_core.OptionError)
    assert issubclass(trio_core.UnknownName, trio_core.OptionError)
    for error in (trio_core.OptionError, trio_core.UnsupportedModel, trio_core.UnsupportedInput):
        assert issubclass(error, trio_core.TrioError)


def test_a_name_that_is_not_there_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'pruner'"):
        _ = trio_core.pruner


@pytest.mark.parametrize(
    "module", ["trio_core", "trio_core.rules.schedule", "trio_core.rules.cost", "trio_core.errors", "trio_core.spans"]
)
def test_importing_does_not_import_torch(module):
    lines = f"import sys, {module}; sys.exit('torch' in sys.modules or 'transformers' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", lines], check=False).returncode == 0
