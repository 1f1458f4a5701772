"""`trio-profile models`: the models that need no download, and whether pruning is right on each family here."""

from typing import Annotated, Any

import typer

from trio_profile.cli import printing
from trio_profile.cli.exits import JUDGED_NO
from trio_profile.cli.options import JSON, LATEX, MARKDOWN
from trio_profile.extras import require_run


def command(
    check: Annotated[
        bool,
        typer.Option("--check", help="Try pruning on a small random model of every family. Exit with 1 if one fails."),
    ] = False,
    json: JSON = False,
    markdown: MARKDOWN = False,
    latex: LATEX = False,
) -> None:
    """List the built-in models. A checkpoint directory or a hub repository works as well."""
    form = printing.form(json=json, markdown=markdown, latex=latex)
    require_run("models")
    if check:
        _check(form)
    else:
        _list(form)


def _list(form: printing.Form) -> None:
    from trio_profile.findings import listing
    from trio_profile.inputs.builtin import BUILTIN
    from trio_profile.inputs.models import without_weights

    rows = [
        {
            "name": name,
            "class": builtin.cls.__name__,
            "parameters": sum(weights.numel() for weights in without_weights(builtin).parameters()),
            "visual_tokens": builtin.visual_tokens,
            "description": builtin.description,
        }
        for name, builtin in sorted(BUILTIN.items())
    ]
    shown = [
        listing.ModelRow(**{name: row[name] for name in ("name", "parameters", "visual_tokens", "description")})
        for row in rows
    ]
    printing.show(form, lambda: printing.listed(models=rows), lambda: listing.models(shown))


def _check(form: printing.Form) -> None:
    from trio_profile.findings import listing
    from trio_profile.inputs.environment import collect

    rows = _checked()
    shown = [
        listing.CheckRow(
            row["family"],
            row["class"],
            row["attention"],
            row["identical"],
            row["difference"],
            row["same_kept"],
            row["generates"],
        )
        for row in rows
    ]
    printing.show(
        form,
        lambda: printing.listed(environment=collect().model_dump(), checks=rows),
        lambda: listing.checks(shown),
    )
    printing.warn(f"{row['family']} ({row['attention']}): {fault}" for row in rows for fault in row["faults"])
    if any(row["faults"] for row in rows):
        raise typer.Exit(JUDGED_NO)


def _checked() -> list[dict[str, Any]]:
    """What the self-check saw of every family, with each of its attentions."""
    from trio_core.engine.checking import self_check
    from trio_core.models import families
    from trio_core.pruning import prune

    return [
        {
            "family": name,
            "class": family.classes[0],
            "attention": attention,
            **vars(self_check(family.toy(attention), prune)),
        }
        for name, family in sorted(families.items())
        for attention in family.toy_attention
    ]
