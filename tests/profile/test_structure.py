"""Rules that keep both packages easy to read: sizes of modules and functions, names, light imports, no circle.

`OPENS_WITH_WHAT` has today's exceptions. It may only shrink.
"""

import ast
import io
import tokenize
from collections import Counter
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import trio_core
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
    *("kinds/evaluation/answering", "kinds/flops/run", "kinds/layers/run"),
    *("kinds/theory/run", "study/preview"),
}
"""Other modules that run a model. They are loaded by name, when a study runs."""


def place(path: Path) -> str:
    """A module's path in the package."""
    return path.relative_to(PACKAGE).as_posix()


def room(path: Path) -> str:
    """The top folder of a module, or the folder of its kind; empty for a module at the top."""
    parts = path.relative_to(PACKAGE).parts
    return "" if path.parent == PACKAGE else "/".join(parts[:2]) if parts[0] == "kinds" else parts[0]


def imported_at_once(path: Path) -> set[str]:
    """The packages that a module imports when it is imported itself."""
    return {name.partition(".")[0] for node in _run_at_once(tree(path)) for name in _names(node)}


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
    for name, path in BOTH.items():
        assert len(path.read_text().splitlines()) <= LINES_OF_A_MODULE, name
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                assert node.end_lineno - node.lineno < LINES_OF_A_FUNCTION, (name, node.name)


def test_two_modules_of_one_room_have_two_names():
    counted = Counter((room(path), path.stem) for path in NAMED)
    assert [key for key, number in counted.items() if number > 1] == []


def test_no_module_name_stands_in_more_than_three_rooms():
    """All folders of kinds together are one room here: each has a `run` and a `document`."""
    rooms: dict[str, set[str]] = {}
    for path in NAMED:
        rooms.setdefault(path.stem, set()).add(room(path).partition("/")[0])
    assert {name for name, of_name in rooms.items() if len(of_name) > ROOMS_OF_A_NAME} == set()


def test_only_what_runs_a_model_imports_torch():
    light = [path for path in MODULES if room(path) not in MAY_BE_HEAVY]
    heavy = {place(path).removesuffix(".py") for path in light if imported_at_once(path) & HEAVY}
    assert heavy == {name for name in RUN_A_MODEL if (PACKAGE / name).parent.is_dir()}


# --- both packages ----------------------------------------------------------------------------------------------------

CRUMB = 40
"""A module with fewer lines of code is merged into the module that uses it, if only one does."""
ONE_FILE_EACH = (
    *("trio_core.methods.", "trio_core.models."),
    *("trio_profile.cli.", "trio_profile.extras.", "trio_profile.quantities."),
)
"""Where each method, family, verb, optional part and quantity has its own file, however short."""
NO_NAMES = {
    *("found", "one", "asked", "shown", "which", "looks", "way", "in_a_row", "said", "told", "given", "what", "beside"),
    *("there", "due", "sent", "got"),
}
"""These words tell nothing about a thing."""
STORED = {
    ("trio_profile.judge.doubts", "found"),  # a field of the documents
    ("trio_profile.kinds.servers.study", "asked"),
}
NO_CODE = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
DOCUMENTED = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def name_of(path: Path, root: Path) -> str:
    """`trio_core/models/__init__.py` → `trio_core.models`."""
    return ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__")


BOTH = {
    name_of(path, package.parent): path
    for package in (Path(trio_core.__file__).parent, PACKAGE)
    for path in sorted(package.rglob("*.py"))
}
"""Name → path of every module of both packages."""


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def lines_of_code(path: Path) -> int:
    """The lines of a module without docstrings, comments and blank lines."""
    tokens = tokenize.generate_tokens(io.StringIO(path.read_text()).readline)
    code = {line for t in tokens if t.type not in NO_CODE for line in range(t.start[0], t.end[0] + 1)}
    for node in ast.walk(tree(path)):
        if isinstance(node, DOCUMENTED) and ast.get_docstring(node) is not None:
            code -= set(range(node.body[0].lineno, node.body[0].end_lineno + 1))
    return len(code)


@cache
def imports() -> dict[str, set[str]]:
    """For each module the modules of both packages that it imports, inside functions too. Strings do not count."""
    graph: dict[str, set[str]] = {}
    for name, path in BOTH.items():
        of_module = set()
        for node in ast.walk(tree(path)):
            of_module |= set(_names(node))
            if isinstance(node, ast.ImportFrom):
                of_module |= {f"{node.module}.{alias.name}" for alias in node.names}
        graph[name] = (of_module & BOTH.keys()) - {name}
    return graph


def test_a_module_of_few_lines_has_more_than_one_user():
    users = Counter(module for of_module in imports().values() for module in of_module)
    small = {
        name
        for name, path in BOTH.items()
        if users[name] == 1 and not path.name.startswith("__") and not name.startswith(ONE_FILE_EACH)
        if lines_of_code(path) < CRUMB
    }
    assert small == set(), "merge each into the module that uses it"


def test_no_import_circle():
    # `from package import module` imports the package too, and a package imports its own modules.
    packages = {name for name, path in BOTH.items() if path.name == "__init__.py"}
    try:
        TopologicalSorter({name: used - packages for name, used in imports().items()}).prepare()
    except CycleError as circle:
        raise AssertionError(" → ".join(circle.args[1])) from None


def test_docstrings_say_what_a_thing_is_or_does():
    opening = [
        (name, getattr(node, "name", "the module"))
        for name, path in BOTH.items()
        for node in ast.walk(tree(path))
        if isinstance(node, DOCUMENTED) and (ast.get_docstring(node) or "").startswith("What ")
    ]
    assert not opening


def test_a_name_says_what_the_thing_is():
    def named(node: ast.AST) -> str | None:
        match node:
            case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name) | ast.FunctionDef(name=name):
                return name
        return None

    names = {(module, named(node)) for module, path in BOTH.items() for node in ast.walk(tree(path))}
    stored = {(module, name) for module, name in STORED if module in BOTH}  # a kind may be deleted
    assert {(module, name) for module, name in names if name and name.strip("_") in NO_NAMES} == stored


# --- tests mirror the tree -------------------------------------------------------------------------------------------

TESTS = Path(__file__).parent
ABOUT_MORE_THAN_A_MODULE = {
    "inputs/test_picture_files.py",  # pictures of every mode through every processor
    "extras/serve/test_closed.py",  # files and connections of both processes
    "study/test_trust.py",  # whatever a stored file may name
    "cli/test_cli.py",  # every verb, and cli/__init__.py
    "inputs/test_videos.py",  # the videos of saved checkpoints, with torchvision
    "profilers/test_on_gpu.py",  # what only a GPU can show
    "report/test_browser.py",  # what a browser makes of a page
    "report/test_every_block.py",  # every block in every renderer
    "report/test_report_pages.py",  # the pages of reports/ in a browser
    "report/test_token_pictures.py",  # the tokens of a picture in a browser
}


def test_a_test_module_stands_where_its_module_stands():
    tests = {path.relative_to(TESTS) for path in TESTS.rglob("test_*.py") if path.parent != TESTS}
    alone = {test.as_posix() for test in tests if not (PACKAGE / test.with_name(test.name[5:])).is_file()}
    of_kinds = {f"kinds/{kind.name}/test_law.py" for kind in (PACKAGE / "kinds").iterdir()}  # its documents
    assert alone - ABOUT_MORE_THAN_A_MODULE - of_kinds == set()
