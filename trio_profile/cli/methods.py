"""`trio-profile methods`: the methods by their class facts."""

from trio_profile.cli.options import Json, print_document


def command(json: Json = False) -> None:
    """List the pruning methods: where each acts, what it needs, where it comes from."""
    import json as encoder
    from dataclasses import asdict

    from rich.console import Console
    from rich.table import Table

    from trio_core import methods

    classes = [methods.find(name) for name in methods.names()]
    if json:
        rows = [
            {
                "name": cls.name,
                "stage": cls.stage,
                "needs": sorted(cls.needs),
                "options": cls.option_names(),
                "reference": asdict(cls.reference),
            }
            for cls in classes
        ]
        print_document(encoder.dumps({"format": "trio-profile", "version": 1, "methods": rows}, indent=2))
        return
    table = Table("method", "acts at", "needs", "reference")
    for cls in classes:
        source = cls.reference.title + (f" (arXiv {cls.reference.arxiv})" if cls.reference.arxiv else "")
        table.add_row(cls.name, cls.stage, ", ".join(sorted(cls.needs)) or "nothing", source)
    Console().print(table)
