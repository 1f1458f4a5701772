"""`trio-profile theory`: the paper's bound on the divergence against what is measured, and its saliency by depth."""

from pathlib import Path
from typing import Annotated

import typer

from trio_profile.cli.options import Attention, Device, Dtype, Json, ModelName, Questions, Seed, given, studied


def command(
    model: ModelName = None,
    layers: Annotated[
        str | None,
        typer.Option("--layers", help="Comma list: remove after each of these alone. Default: the paper's."),
    ] = None,
    retention: Annotated[
        str | None,
        typer.Option(help="Comma list: shares of the visual tokens kept there. Default: 0.05,0.11,0.33,0.66."),
    ] = None,
    option: Annotated[
        list[str] | None,
        typer.Option("--option", "-o", help="An option of TRIO, as probe=current, rows=shifted, k_pos=4; repeatable."),
    ] = None,
    questions: Questions = None,
    asked: Annotated[
        int | None, typer.Option(help="Questions, or drawn pictures for a model that has none. Default: 30.")
    ] = None,
    device: Device = None,
    dtype: Dtype = None,
    attention: Attention = None,
    seed: Seed = None,
    out: Annotated[Path | None, typer.Option(help="Directory for theory.json and report.html.")] = None,
    json: Json = False,
) -> None:
    """Hold the paper's bound, (Σ s·‖h‖)² over removed tokens, against the KL that removing them makes, stage by stage.

    Also at every layer: its own saliency against the last layer's, and how many tokens are above the mean.
    """
    fields = given(locals())
    from trio_profile.cli.progress import progress
    from trio_profile.cli.publish import THEORY, publish_theory
    from trio_profile.records.store import keep, make_directory
    from trio_profile.studies import theory as tested

    study = studied({"retentions": tested.SHARES, **fields})
    if out is not None:
        make_directory(out)
    with progress() as watch:
        document = tested.run(study, watch=watch, keep=out and (lambda unfinished: keep(out / THEORY, unfinished)))
    publish_theory(document, out, as_json=json)
