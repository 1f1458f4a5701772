"""What keeps trio_profile easy to read: short modules and functions, names that are not used twice, light imports."""

import ast
from collections import Counter
from pathlib import Path

import trio_profile

PACKAGE = Path(trio_profile.__file__).parent
MODULES = sorted(PACKAGE.rglob("*.py"))
NAMED = [path for path in MODULES if not path.name.startswith("__")]
LINES_OF_A_MODULE, LINES_OF_A_FUNCTION, ROOMS_OF_A_NAME = 600, 60, 3

HEAVY = {"torch", "transformers", "trio_core"}
"""Packages that a report on a laptop must not need."""
MAY_BE_HEAVY = {"inputs", "profilers", "extras"}
"""Rooms whose modules may import them."""
RUN_A_MODEL = {
    *("engine/counting", "engine/measuring", "engine/plan"),
    *(
        "studies/answering",
        "studies/flops",
        "studies/layer_times",
        "studies/layers",
        "studies/preview",
    ),
}
"""Modules of engine/ and studies/ that run a model. They are loaded by name, when a study runs."""


def place(path: Path) -> str:
    """A module's path in the package."""
    return path.relative_to(PACKAGE).as_posix()


def room(path: Path) -> str:
    """The top folder of a module; empty for a module at the top. Sub-folders belong to their room."""
    return path.relative_to(PACKAGE).parts[0] if path.parent != PACKAGE else ""


def imported_at_once(path: Path) -> set[str]:
    """The packages that a module imports when it is imported itself."""
    return {name.partition(".")[0] for node in _run_at_once(ast.parse(path.read_text())) for name in _names(node)}


def _run_at_once(node: ast.AST):
    """Every node below this one that runs on import: nothing inside functions, nothing for type checkers alone."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.dump(child.test):
            continue
        yield child
        yield from _run_at_once(child)


def _names(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    return [node.module or ""] if isinstance(node, ast.ImportFrom) else []


def test_modules_and_functions_are_short():
    for path in MODULES:
        text = path.read_text()
        assert len(text.splitlines()) <= LINES_OF_A_MODULE, place(path)
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                assert node.end_lineno - node.lineno < LINES_OF_A_FUNCTION, (place(path), node.name)


def test_two_modules_of_one_room_have_two_names():
    counted = Counter((room(path), path.stem) for path in NAMED)
    assert [key for key, number in counted.items() if number > 1] == []


def test_no_module_name_stands_in_more_than_three_rooms():
    rooms: dict[str, set[str]] = {}
    for path in NAMED:
        rooms.setdefault(path.stem, set()).add(room(path))
    assert {name: found for name, found in rooms.items() if len(found) > ROOMS_OF_A_NAME} == {}


def test_only_what_runs_a_model_imports_torch():
    light = [path for path in MODULES if room(path) not in MAY_BE_HEAVY]
    heavy = {place(path).removesuffix(".py") for path in light if imported_at_once(path) & HEAVY}
    assert heavy - RUN_A_MODEL == set()


def test_the_list_of_modules_that_run_a_model_is_exact():
    heavy = {path for path in NAMED if room(path) in ("engine", "studies") and imported_at_once(path) & HEAVY}
    assert {place(path).removesuffix(".py") for path in heavy} == RUN_A_MODEL


# --- tests mirror the tree -------------------------------------------------------------------------------------------

TESTS = Path(__file__).parent
ABOUT_MORE_THAN_A_MODULE = {
    "cli/test_cli.py",  # every verb, and cli/__init__.py
    "profilers/test_on_gpu.py",  # what only a GPU can show
    "render/test_browser.py",  # what a browser makes of a page
    "render/test_every_block.py",  # every block in every renderer
    "render/test_report_pages.py",  # the pages of reports/ in a browser
}


def test_a_test_module_stands_where_its_module_stands():
    tests = {path.relative_to(TESTS) for path in TESTS.rglob("test_*.py") if path.parent != TESTS}
    alone = {test.as_posix() for test in tests if not (PACKAGE / test.with_name(test.name[5:])).is_file()}
    assert alone - ABOUT_MORE_THAN_A_MODULE == set()
