"""Facts of methods and models: those that `data/catalogue.json` keeps, and those that a trial of a checkpoint sees."""

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

SOURCE = Path(__file__).parents[1] / "data" / "catalogue.json"


@dataclass(frozen=True)
class MethodFacts:
    """The facts that the class of a method declares.

    stage: where it acts.
    media: `pictures`, `videos` or `both`.
    needs: the signals that it reads, sorted.
    selection_macs: the declared MACs of all its selections in one prompt of LLaVA-1.5-7B.
    selection_share: these MACs as a share of one dense decoder layer.
    options: the default of each option.
    reference: its source: the fields of `trio_core.Reference`.
    remark: what must be known wherever the method is shown.
    selection: what a prediction needs: the operators of a selection, the launches and waits of the host with their
        source (`data/selections.yaml`), and where the method acts. Empty for a method that declares none.
    """

    name: str
    summary: str
    stage: str
    media: str
    needs: tuple[str, ...]
    selection_macs: int
    selection_share: float
    options: dict[str, Any]
    reference: dict[str, str]
    remark: str
    selection: dict[str, Any]


@dataclass(frozen=True)
class ModelFacts:
    """The facts of a built-in model.

    cls: its transformers class.
    layers: its decoder layers.
    has_processor: whether it can be asked about a picture.
    """

    name: str
    cls: str
    parameters: int
    layers: int
    visual_tokens: int
    has_processor: bool
    description: str


@dataclass(frozen=True)
class TrialStep:
    """One step of the trial of a checkpoint: `models --check DIR`.

    name: what was tried.
    passed: whether it worked.
    seen: what was seen; what is missing, in one line, if it did not work.
    """

    name: str
    passed: bool
    seen: str


@cache
def stored() -> dict[str, Any]:
    """The contents of `data/catalogue.json`: facts of methods and built-in models, digests of the methods' files."""
    return json.loads(SOURCE.read_text(encoding="utf-8"))


def source_of(method: str) -> dict[str, str] | None:
    """The source of a built-in method: the fields of `trio_core.Reference`. None for a combination or a user's own."""
    return next((facts["reference"] for facts in stored()["methods"] if facts["name"] == method), None)


@cache
def models() -> dict[str, ModelFacts]:
    """The facts of all built-in models, by name."""
    return {facts["name"]: ModelFacts(**facts) for facts in stored()["models"]}
