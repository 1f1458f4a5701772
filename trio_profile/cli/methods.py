"""`trio-profile methods`: the methods by their class facts."""

from trio_profile.cli.options import Json, print_document

_RETENTION = 1 / 3
"""At which every method's layers can still keep the average."""


def command(json: Json = False) -> None:
    """List the pruning methods: where each acts, what it needs, what its choice costs, where it comes from.

    The cost is declared, not measured: the MACs of all its choices at LLaVA-1.5-7B's size (576 visual and 60 text
    tokens, a third kept on average), as a share of one dense decoder layer's.
    """
    import json as encoder
    from dataclasses import asdict

    from rich import box
    from rich.console import Console
    from rich.table import Table

    from trio_core import methods
    from trio_core.methods.method import Method
    from trio_core.rules.cost import LayerShape
    from trio_profile import units
    from trio_profile.cost.formula import layer_macs

    shape = LayerShape(4096, 11008, 4096, 4096, 32, 32064, 3, vision_hidden=1024, vision_heads=16, patches=576)

    def choice_macs(cls: type[Method]) -> int:
        method = cls(retention=_RETENTION)
        return method.selection_macs(shape, method.schedule(576, 32), 60, 25)

    layer = layer_macs(576 + 60, shape.hidden, shape.intermediate, shape.query_width, shape.kv_width, 3)
    classes = [methods.find(name) for name in methods.names()]
    if json:
        rows = [
            {
                "name": cls.name,
                "stage": cls.stage,
                "needs": sorted(cls.needs),
                "selection_macs": choice_macs(cls),
                "options": cls.option_names(),
                "reference": asdict(cls.reference),
                "remark": cls.reference.remark,
            }
            for cls in classes
        ]
        print_document(encoder.dumps({"format": "trio-profile", "version": 1, "methods": rows}, indent=2))
        return
    table = Table("method", "acts at", "needs", "choice, of\na layer", "reference", box=box.SIMPLE_HEAD, pad_edge=False)
    for cls in classes:
        source = f"arXiv {cls.reference.arxiv}" if cls.reference.arxiv else cls.reference.repository
        source = ", ".join(part for part in (source, cls.reference.remark) if part)
        cost = units.percent(choice_macs(cls) / layer, 1)
        table.add_row(cls.name, cls.stage, ", ".join(sorted(cls.needs)) or "nothing", cost, source)
    Console().print(table)
