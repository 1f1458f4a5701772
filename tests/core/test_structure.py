"""What keeps trio_core easy to read: short modules, short functions, and rules that know nothing of models."""

import ast
from pathlib import Path

import pytest

import trio_core

PACKAGE = Path(trio_core.__file__).parent
MODULES = sorted(PACKAGE.rglob("*.py"))
LINES_OF_A_MODULE, LINES_OF_A_FUNCTION = 600, 60


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_modules_and_functions_are_short(path):
    text = path.read_text()
    assert len(text.splitlines()) <= LINES_OF_A_MODULE
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef):
            assert node.end_lineno - node.lineno < LINES_OF_A_FUNCTION, node.name


@pytest.mark.parametrize("path", sorted((PACKAGE / "rules").glob("*.py")), ids=lambda path: path.name)
def test_rules_import_nothing_of_ours_but_errors_tensors_and_spans(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("trio_core"):
            assert node.module.startswith("trio_core.rules") or node.module in (
                "trio_core.errors",
                "trio_core.tensors",
                "trio_core.spans",
            )
