"""`trio-profile ablate`: the paper's ablations, TRIO with one option changed at a time, timed in turn."""

from pathlib import Path
from typing import Annotated

import typer

from trio_profile.cli.compare import DRAWN
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


def command(
    model: ModelName = None,
    only: Annotated[
        list[str] | None,
        typer.Option(help="k_pos, threshold, layers, probe or saliency; repeatable. Default: all."),
    ] = None,
    retention: Annotated[str, typer.Option(help="Comma list: shares of the visual tokens kept.")] = "0.111",
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
    cell_seconds: Annotated[float, typer.Option(help="Measured seconds a variant at the most.")] = 3.0,
    seed: Seed = None,
    out: Out = Path("runs/ablate"),
    json: Json = False,
) -> None:
    """Change one option of TRIO at a time: answers, nearness to dense, speed-up and work, held against its default.

    A variant that cannot run here is listed with its reason. Finished ones are not run again.
    """
    fields = given(locals())
    from trio_profile.cli.progress import progress
    from trio_profile.cli.publish import publish_ablation
    from trio_profile.inputs.models import own_questions
    from trio_profile.studies import ablations, sweep

    if asked is not None and asked < 1:
        raise typer.BadParameter(f"--asked {asked}: an ablation needs at least 1")
    study = studied({**fields, "verb": "ablate"})
    study = study.model_copy(update={"ablations": ablations.of(study, only or ())})
    if asked is None and questions is None and own_questions(study) is None:
        study = study.model_copy(update={"fidelity_inputs": DRAWN})
    with progress() as watch:
        contents = sweep.run(study, out, watch=watch, refusals=True)
    publish_ablation(contents, out, as_json=json)
