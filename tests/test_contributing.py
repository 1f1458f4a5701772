"""CONTRIBUTING.md: its recipes run as they stand there, and every file that it names exists."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import patch

import pytest

from tests import warm
from tests.profile import examples
from tests.profile.checkpoints import save_tiny_llava
from tests.profile.kinds.layers.kept import layers_document
from tests.profile.reading import blocks, in_terminal
from trio_profile.kinds.grid import compare
from trio_profile.kinds.grid.compare import compare as compare_cells
from trio_profile.kinds.layers import report as layers
from trio_profile.report.blocks import Report, Table
from trio_profile.report.html import render
from trio_profile.report.latex import latex
from trio_profile.report.markdown import markdown

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "CONTRIBUTING.md").read_text()


def code_of(title: str) -> list[str]:
    """The code of a section, block by block."""
    section = PAGE.partition(f"## {title}\n")[2].partition("\n## ")[0]
    return re.findall(r"^```(?:python|text)\n(.*?)^```$", section, flags=re.DOTALL | re.MULTILINE)


def test_every_file_that_is_named_exists():
    named = set(re.findall(r"`((?:trio_core|trio_profile|tests|scripts|docs|reports)/[\w./-]*)`", PAGE))
    examples = {"trio_profile/quantities/layer_tokens.py"}
    assert {name for name in named - examples if not (ROOT / name).exists()} == set() and named


# --- a kind of study -------------------------------------------------------------------------------------------------

WITH_THE_FOLDER = """
import sys

import trio_profile.kinds

trio_profile.kinds.__path__.append(sys.argv[1])

from trio_profile.cli import run

sys.exit(run(sys.argv[2:]))
"""
"""The command line with one more folder in kinds/. Arguments: where the folder is, and those of the command line."""


@pytest.mark.slow
def test_a_kind_of_study_is_one_folder_and_no_other_edit(tmp_path):
    folder = tmp_path / "kinds" / "weights"
    folder.mkdir(parents=True)
    (folder / "__init__.py").touch()
    for name, text in zip(("document", "run", "report", "kind"), code_of("Add a kind of study"), strict=True):
        (folder / f"{name}.py").write_text(text)

    def trio_profile(*arguments: object) -> str:
        program = ("-c", WITH_THE_FOLDER, tmp_path / "kinds")
        done = warm.call(*program, *arguments, directory=tmp_path)
        assert done.returncode == 0, done.stderr
        return done.stdout

    out = tmp_path / "out"
    assert "Count the weights of a model" in trio_profile("--help")
    found = json.loads(trio_profile("weights", "--model", "pocket-deep", "--out", out, "--json"))
    decoder, others = (part["weights"] for part in found["parts"])
    assert decoder > others > 0
    assert found["study"]["model"] == "pocket-deep"
    said = "The decoder layers have"
    assert said in trio_profile("show", out)
    (out / "report.html").unlink()
    assert said in trio_profile("report", out, "--markdown")
    assert said in (out / "report.html").read_text()
    again = json.loads(trio_profile("weights", "--study", out / "study.toml", "--out", out, "--json"))
    assert again == found
    assert trio_profile("export", out, "--format", "csv").splitlines()[1] == f"decoder layers,{decoder}"


# --- a quantity ------------------------------------------------------------------------------------------------------

WITH_THE_QUANTITY = """
import sys

from trio_profile import quantities

quantities.__path__.append(sys.argv[1])

from trio_profile.cli import run

study = "--method grid --retention 0.5 --seconds 1 --processes 1 --asked 1 --prompt abc --out out"
for verb in (f"sweep --model {sys.argv[2]} {study}",
             "show out --json", "report out --markdown", "export out --format csv --out cells.csv",
             "gate out out --counts --json"):
    print("====")
    assert run([*verb.split()]) == 0, verb
"""
"""The command line with one more file in quantities/, one verb after the other.

Arguments: the folder of the file, and the model's directory.
"""


@pytest.mark.slow
def test_a_quantity_is_one_file(tmp_path):
    (file,) = code_of("Add a quantity")
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "layer_tokens.py").write_text(file)
    model = save_tiny_llava(tmp_path / "tiny")
    done = subprocess.run(  # a fresh process: in a warm one the quantities are imported already
        [sys.executable, "-c", WITH_THE_QUANTITY, tmp_path / "package", model],
        cwd=tmp_path,
        env={**os.environ, **warm.ENVIRONMENT},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    _, _, document, shown, _, gate = done.stdout.split("====\n")
    dense, (cell,) = (json.loads(document)[name] for name in ("dense", "cells"))
    # 36 visual tokens, and 21 of text: the bytes of "USER: \nabc ASSISTANT:". Half of the visual ones pass 6 layers.
    assert (dense["layer_tokens"], cell["layer_tokens"]) == (6 * (36 + 21), 6 * (18 + 21))
    assert "layer tokens" in shown and "Tokens in all layers" in shown
    assert "layer tokens" in (tmp_path / "out" / "report.html").read_text()
    header, row = (tmp_path / "cells.csv").read_text().splitlines()
    assert dict(zip(header.split(","), row.split(","), strict=True))["layer_tokens"] == str(cell["layer_tokens"])
    assert "layer_tokens" in {verdict["quantity"] for verdict in json.loads(gate)["verdicts"]}


# --- a block ---------------------------------------------------------------------------------------------------------


def with_lines(module: ModuleType, lines: str, function: str = "") -> Any:
    """A module of a report with further lines after the first one of `lines`, and with one more function."""
    place = lines.splitlines()[0] + "\n"
    source = Path(str(module.__file__)).read_text()
    assert source.count(place) == 1
    edited = ModuleType(module.__name__)
    text = source.replace(place, lines).replace("PAGES:", f"{function}\n\nPAGES:")
    exec(compile(text, str(module.__file__), "exec"), vars(edited))
    return edited


def everywhere(report: Report) -> Iterator[str]:
    """A report as each renderer draws it. The space before a unit may be one that does not break."""
    drawn = (render(report), in_terminal(report, everything=True), markdown(report), latex(report))
    return (" ".join(text.split()) for text in drawn)


def test_a_block_is_one_function_that_every_renderer_shows():
    function, lines = code_of("Add a block to a report page")
    with_the_block = with_lines(layers, lines, function)
    said = "Layer 1 takes longest: 10.0 ms."
    assert all(said in drawn for drawn in everywhere(with_the_block.report(layers_document())))
    assert said not in render(layers.report(layers_document()))


def test_a_column_is_one_name_in_a_list():
    (lines,) = code_of("Add a column to a table")
    study = examples.study(("trio", "grid"), retentions=(0.3,), verb="compare")
    cells = [examples.measurement("trio", 0.3), examples.measurement("grid", 0.3)]
    document = compare_cells(examples.contents_of(study, cells, examples.dense()))
    with_the_column = with_lines(compare, lines)
    assert all("peak" in drawn for drawn in everywhere(with_the_column.report(document)))
    before, after = (blocks(made.report(document), Table)[0].columns for made in (compare, with_the_column))
    assert set(after) - set(before) == {"peak"}


# --- a method --------------------------------------------------------------------------------------------------------


def test_a_method_is_one_class(monkeypatch):
    import torch

    from tests.core import tiny
    from trio_core import prune
    from trio_core.methods.method import registry

    (code,) = code_of("Add a method")
    imports = (
        "from dataclasses import dataclass\nfrom typing import ClassVar\n"
        "from trio_core import Reference, ScoreMethod, View\nfrom trio_core.tensors import ScoresBS\n"
    )
    module = ModuleType("mine")
    monkeypatch.setitem(sys.modules, "mine", module)
    with patch.dict(registry):
        exec(imports + code, vars(module))
        model = tiny.model(tiny.FAMILIES[0])
        with torch.no_grad(), prune(model, "mine", retention=0.5) as trace:
            model(**tiny.sample(tiny.FAMILIES[0]))
    assert trace.stages[0].tokens_after < trace.stages[0].tokens_before
