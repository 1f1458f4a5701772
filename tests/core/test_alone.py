"""trio_core needs torch and transformers, and nothing else that they do not bring."""

import json
import subprocess
import sys
import textwrap
from importlib.metadata import packages_distributions, requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

PROGRAM = textwrap.dedent(
    """
    import importlib, json, pkgutil, sys

    for package in json.loads(sys.argv[1]):
        sys.modules.setdefault(package)  # None: an import of it fails

    import torch, trio_core
    from trio_core.models import families
    from trio_core.tensors import HiddenBSD

    for module in pkgutil.walk_packages(trio_core.__path__, "trio_core."):
        importlib.import_module(module.name)
    assert HiddenBSD is torch.Tensor
    model, sample = families["LLaVA-1.5"].toy(), families["LLaVA-1.5"].toy_sample()
    with torch.no_grad(), trio_core.prune(model, "visionzip+trio", retention=0.5) as trace:
        model(**sample)
    assert trace.realised_retention < 1
    """
)


def required(distribution: str, names: set[str]) -> None:
    """Add a distribution and all that it requires, without extras, to `names`."""
    if (name := canonicalize_name(distribution)) in names:
        return
    names.add(name)
    for line in requires(distribution) or ():
        requirement = Requirement(line)
        if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
            required(requirement.name, names)


@pytest.mark.slow
def test_trio_core_imports_and_prunes_with_torch_and_transformers_alone():
    brought = set[str]()
    for distribution in ("torch", "transformers"):
        required(distribution, brought)
    others = [
        package
        for package, distributions in packages_distributions().items()
        if not brought & {canonicalize_name(name) for name in distributions} and package != "trio_core"
    ]
    assert {"jaxtyping", "scipy"} <= {*others}
    run = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", PROGRAM, json.dumps([*others, "trio_profile"])],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
