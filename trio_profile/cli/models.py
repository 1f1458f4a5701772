"""`trio-profile models`: what can be named without a download, and whether pruning holds on each family here."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from trio_profile.cli.options import Json, print_document

if TYPE_CHECKING:
    from trio_core.engine.checking import Check

CheckFamilies = Annotated[
    bool,
    typer.Option("--check", help="Try every family's class on a toy with random weights; exit with 1 if one fails."),
]


def command(check: CheckFamilies = False, json: Json = False) -> None:
    """List the built-in models. Any checkpoint directory or hub name works as well."""
    if check:
        _check(json)
    else:
        _list(json)


def _list(json: bool) -> None:
    import json as encoder

    from rich.console import Console
    from rich.table import Table

    from trio_profile.inputs.models import BUILTIN, without_weights

    rows = [
        {
            "name": name,
            "class": builtin.cls.__name__,
            "parameters": sum(p.numel() for p in without_weights(builtin).parameters()),
            "visual_tokens": builtin.visual_tokens,
            "description": builtin.description,
        }
        for name, builtin in sorted(BUILTIN.items())
    ]
    if json:
        print_document(encoder.dumps({"format": "trio-profile", "version": 1, "models": rows}, indent=2))
        return
    from trio_profile.units import count

    table = Table("model", "parameters", "visual tokens", "what it is")
    for row in rows:
        table.add_row(row["name"], count(row["parameters"]), str(row["visual_tokens"]), row["description"])
    Console().print(table)


def _check(json: bool) -> None:
    import json as encoder

    from trio_core.engine.checking import self_check
    from trio_core.models import families
    from trio_core.pruning import prune
    from trio_profile.cli.tables import print_checks, warn
    from trio_profile.inputs.environment import collect

    seen: list[tuple[dict[str, str], Check]] = [
        ({"family": name, "class": family.classes[0], "attention": attention}, self_check(family.toy(attention), prune))
        for name, family in sorted(families.items())
        for attention in family.toy_attention
    ]
    rows: list[dict[str, Any]] = [{**kernel, **vars(found)} for kernel, found in seen]
    if json:
        document = {"format": "trio-profile", "version": 1, "environment": collect().model_dump(), "checks": rows}
        print_document(encoder.dumps(document, indent=2))
    else:
        print_checks(rows)
    warn([f"{row['family']} ({row['attention']}): {fault}" for row in rows for fault in row["faults"]])
    if any(row["faults"] for row in rows):
        raise typer.Exit(1)
