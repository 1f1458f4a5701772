"""docs/reference/layout.md: it names every folder of the two packages, and nothing that does not exist."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TREE = re.findall(r"```text\n(.*?)```", (ROOT / "docs" / "reference" / "layout.md").read_text(), flags=re.DOTALL)[0]


def named() -> set[str]:
    """The paths of the tree, from the root of the repository. A line is two spaces deeper than its folder."""
    found, folders = set[str](), list[str]()
    for line in TREE.splitlines():
        depth = (len(line) - len(line.lstrip())) // 2
        names = re.match(r"\S+( \S+)*", line.strip())
        assert names is not None
        for name in names[0].split():
            found.add("".join(folders[:depth]) + name)
            if name.endswith("/"):
                folders[depth:] = [name]
    return found


def test_every_path_of_the_tree_exists():
    assert len(named()) > 30
    assert sorted(path for path in named() if not (ROOT / path).exists()) == []


@pytest.mark.parametrize("package", ["trio_core", "trio_profile"])
def test_every_folder_of_a_package_is_in_the_tree(package: str):
    folders = {path.parent.name for path in (ROOT / package).glob("*/__init__.py")}
    assert sorted(folder for folder in folders if f"{package}/{folder}/" not in named()) == []
