"""`trio-profile models`: the models that need no download, and whether pruning is right on each family here."""

from typing import Annotated, Any, Literal

import typer

from trio_profile.cli import printing
from trio_profile.cli.common_options import Form
from trio_profile.cli.exits import JUDGED_NO
from trio_profile.optional import require_run, set_broken_torchvision_aside


def command(
    directory: Annotated[
        str | None,
        typer.Argument(
            metavar="DIR",
            help="With --check: try this checkpoint, a directory or a hub repository, and no other model.",
        ),
    ] = None,
    check: Annotated[
        bool,
        typer.Option(
            "--check",
            help="Try pruning on a small random model of every family, without processors. With DIR: try this "
            "checkpoint, with its processor and chat template. Exit with 1 if something fails.",
        ),
    ] = False,
    device: Annotated[str | None, typer.Option(help="With DIR: cpu or cuda. Default: cuda if there is one.")] = None,
    dtype: Annotated[
        Literal["float32", "bfloat16", "float16"] | None,
        typer.Option(help="With DIR: number format. Default: bfloat16 on CUDA, otherwise float32."),
    ] = None,
    attention: Annotated[str | None, typer.Option(help="With DIR: attention kernel. Default: sdpa.")] = None,
    *,
    form: Form,
) -> None:
    """List the built-in models. A checkpoint directory or a hub repository works as well.

    `models --check DIR` says "ready" if a checkpoint can be pruned and measured here, or what is missing.
    """
    settings = {"device": device, "dtype": dtype, "attention": attention}
    settings = {name: value for name, value in settings.items() if value is not None}
    if directory is not None and not check:
        raise typer.BadParameter(f"`models {directory}` does nothing: `models --check {directory}` tries it")
    if directory is None and settings:
        raise typer.BadParameter(f"--{next(iter(settings))} is for `models --check DIR`")
    if not check:
        _list(form)
        return
    require_run("models")
    set_broken_torchvision_aside()
    if directory is not None:
        _try(directory, settings, form)
    else:
        _check(form)


def _try(model: str, settings: dict[str, str], form: Form) -> None:
    """Try one checkpoint. The exit code is 1 if it is not ready."""
    from trio_profile.inputs.environment import collect
    from trio_profile.inputs.readiness import try_checkpoint
    from trio_profile.report import listing
    from trio_profile.study.asked import make

    study = make("sweep", {"model": model, **settings})
    steps = try_checkpoint(study)
    ready = all(step.passed for step in steps)
    document = {"model": model, "steps": [vars(step) for step in steps], "ready": ready}
    printing.show(
        form,
        lambda: printing.listed(environment=collect(study.device).model_dump(), **document),
        lambda: listing.readiness(model, steps),
    )
    if not ready:
        raise typer.Exit(JUDGED_NO)


def _list(form: Form) -> None:
    from trio_profile.inputs import catalogue
    from trio_profile.report import listing

    models = catalogue.models().values()
    names = ("name", "parameters", "visual_tokens", "description")
    rows = [{"class": model.cls, **{name: getattr(model, name) for name in names}} for model in models]
    printing.show(form, lambda: printing.listed(models=rows), lambda: listing.models(models))


def _check(form: Form) -> None:
    """Try every family with each of its attentions. The exit code is 1 if one has a fault."""
    from trio_core.engine.checking import self_check
    from trio_core.models import families
    from trio_core.pruning import prune
    from trio_profile.inputs.environment import collect
    from trio_profile.report import listing

    rows: list[dict[str, Any]] = []
    for name, family in sorted(families.items()):
        for attention in family.toy_attention:
            result = vars(self_check(family.toy(attention), prune))
            rows.append({"family": name, "class": family.classes[0], "attention": attention, **result})
    printing.show(
        form, lambda: printing.listed(environment=collect().model_dump(), checks=rows), lambda: listing.checks(rows)
    )
    printing.warn(f"{row['family']} ({row['attention']}): {fault}" for row in rows for fault in row["faults"])
    if any(row["faults"] for row in rows):
        raise typer.Exit(JUDGED_NO)
