"""`trio-profile models`: what can be named without a download."""

from trio_profile.cli.options import Json, print_document


def command(json: Json = False) -> None:
    """List the built-in models. Any checkpoint directory or hub name works as well."""
    import json as encoder

    from rich.console import Console
    from rich.table import Table

    from trio_profile.models import BUILTIN, without_weights

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
