"""`trio-profile report`: rebuild report.html from what a directory holds, on any machine, without torch."""

from pathlib import Path
from typing import Annotated

import typer

from trio_profile.cli.options import Json


def command(
    directory: Annotated[
        Path,
        typer.Argument(help="A directory of measurements.jsonl, flops.json, layers.json, theory.json or audit.json."),
    ],
    json: Json = False,
) -> None:
    """Rebuild the report of a study from its measurements, or of any other from its document."""
    from trio_profile.cli.audit import AUDIT, publish_audit
    from trio_profile.records.store import Store

    if not Store(directory).exists() and (directory / AUDIT).exists():
        return publish_audit(directory, as_json=json)
    from trio_profile.analysis.layers import LayersDocument
    from trio_profile.analysis.theory import TheoryDocument
    from trio_profile.cli.publish import (
        FLOPS,
        LAYERS,
        THEORY,
        publish,
        publish_ablation,
        publish_comparison,
        publish_flops,
        publish_layers,
        publish_theory,
    )
    from trio_profile.cost.reconciliation import FlopsDocument
    from trio_profile.records.store import kept

    if not Store(directory).exists():
        if (directory / FLOPS).exists():
            return publish_flops(kept(directory / FLOPS, FlopsDocument), directory, as_json=json)
        if (directory / LAYERS).exists():
            return publish_layers(kept(directory / LAYERS, LayersDocument), directory, as_json=json)
        if (directory / THEORY).exists():
            return publish_theory(kept(directory / THEORY, TheoryDocument), directory, as_json=json)
    contents = Store(directory).read()
    if contents.study.verb == "compare":
        return publish_comparison(contents, directory, as_json=json)
    if contents.study.verb == "ablate":
        return publish_ablation(contents, directory, as_json=json)
    return publish(contents, directory, as_json=json)
