"""trio_core needs torch and transformers, and nothing else that they do not bring."""

import json
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from importlib.metadata import packages_distributions, requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]

PROGRAM = textwrap.dedent(
    """
    import importlib, json, pkgutil, sys

    hidden = set(json.loads(sys.argv[1]))


    class Hiding:
        '''A finder of modules that finds none of the hidden packages.'''

        def __init__(self, finder):
            self.finder = finder

        def find_spec(self, name, *args):
            return None if name.partition(".")[0] in hidden else self.finder.find_spec(name, *args)

        def __getattr__(self, name):
            return getattr(self.finder, name)


    sys.meta_path[:] = [Hiding(finder) for finder in sys.meta_path]

    import trio_core

    for module in pkgutil.walk_packages(trio_core.__path__, "trio_core."):
        importlib.import_module(module.name)

    import torch
    from trio_core.models import families
    from trio_core.tensors import HiddenBSD

    assert HiddenBSD is torch.Tensor
    family = families["LLaVA-1.5"]
    model, sample = family.toy(), family.toy_sample()
    for method in ("trio", "fastv", "visionzip"):
        with torch.no_grad(), trio_core.prune(model, method, retention=0.5) as trace:
            model(**sample)
        stage = trace.stages[0]
        print(method, stage.tokens_after < stage.tokens_before)
    print("hidden and yet imported:", sorted(hidden & {name.partition(".")[0] for name in sys.modules}))
    """
)


def required(distribution: str, found: set[str]) -> None:
    """Add a distribution and all that it requires, without extras, to `found`."""
    if (name := canonicalize_name(distribution)) in found:
        return
    found.add(name)
    for line in requires(distribution) or ():
        requirement = Requirement(line)
        if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
            required(requirement.name, found)


def other_packages() -> Iterator[str]:
    """The top-level packages of this environment that neither torch nor transformers bring."""
    brought = set[str]()
    for distribution in ("torch", "transformers"):
        required(distribution, brought)
    for package, distributions in packages_distributions().items():
        if not brought & {canonicalize_name(name) for name in distributions}:
            yield package
    yield "trio_profile"


@pytest.mark.slow
def test_trio_core_imports_and_prunes_with_torch_and_transformers_alone():
    hidden = sorted(set(other_packages()) - {"trio_core"})
    assert {"jaxtyping", "plotly", "trio_profile"} <= set(hidden)
    assert not {"torch", "transformers", "packaging", "numpy"} & set(hidden)
    run = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", PROGRAM, json.dumps(hidden)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout.splitlines() == [
        "trio True",
        "fastv True",
        "visionzip True",
        "hidden and yet imported: []",
    ]
