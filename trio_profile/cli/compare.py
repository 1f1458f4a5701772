"""`trio-profile compare`: methods side by side at the same retentions, timed in turn in one process."""

from pathlib import Path
from typing import Annotated, get_args

import typer

from trio_profile.cli.options import (
    Attention,
    Batch,
    Device,
    Dtype,
    Json,
    MethodOptions,
    ModelName,
    NewTokens,
    Out,
    Picture,
    Precision,
    Prompt,
    PruneAfter,
    Questions,
    Seed,
    TextTokens,
    given,
    studied,
)

DRAWN = 8
"""Pictures drawn for a model that has no questions."""
CONTROLS = ("random", "downsample")
"""What always stands beside the methods: a draw, and a smaller picture."""


def command(
    model: ModelName = None,
    method: Annotated[
        list[str] | None, typer.Option(help="Method; repeat for several, or package.module:Class. Default: all.")
    ] = None,
    retention: Annotated[str, typer.Option(help="Comma list: shares of the visual tokens kept.")] = "0.333",
    budget_rule: Annotated[
        str | None, typer.Option(help="What a share means: average (over layers; the default), after-prune or final.")
    ] = None,
    layers: PruneAfter = None,
    option: MethodOptions = None,
    image: Picture = None,
    prompt: Prompt = None,
    questions: Questions = None,
    asked: Annotated[
        int | None,
        typer.Option(
            "--asked",
            "--pictures",
            help="Questions, or drawn pictures, held against dense. Default: all of a file, 200 of pocket, 8.",
        ),
    ] = None,
    text_tokens: TextTokens = None,
    new_tokens: NewTokens = None,
    batch: Batch = None,
    device: Device = None,
    dtype: Dtype = None,
    attention: Attention = None,
    precision: Precision = None,
    cell_seconds: Annotated[float, typer.Option(help="Measured seconds a method at the most.")] = 3.0,
    seed: Seed = None,
    out: Out = Path("runs/compare"),
    json: Json = False,
) -> None:
    """Compare methods at the same retentions: time, choice, work, cache, and how near the next token stays to dense.

    `random` and `downsample` stand beside whatever is named. A method that cannot run here is listed with its reason.
    """
    fields = given(locals())
    from trio_core import methods
    from trio_core.methods.method import BudgetRule
    from trio_profile.cli.progress import progress
    from trio_profile.cli.publish import publish_comparison
    from trio_profile.inputs.models import own_questions
    from trio_profile.studies import sweep

    named = list(method or methods.names())
    options = fields.get("options", {})
    if budget_rule is not None:
        if budget_rule not in get_args(BudgetRule):
            raise typer.BadParameter(f"budget rule {budget_rule!r}: choose average, after-prune or final")
        options = options | {"budget_rule": budget_rule}
    if asked is not None and asked < 1:
        raise typer.BadParameter(f"--asked {asked}: a comparison needs at least 1")
    compared = tuple(dict.fromkeys([*named, *CONTROLS]))
    study = studied({**fields, "verb": "compare", "methods": compared, "options": options})
    if asked is None and questions is None and own_questions(study) is None:
        study = study.model_copy(update={"fidelity_inputs": DRAWN})
    with progress() as watch:
        contents = sweep.run(study, out, watch=watch, refusals=True)
    publish_comparison(contents, out, as_json=json)
