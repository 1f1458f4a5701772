"""`trio-profile flops`: from the formula's figure to the counted one, term by term."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from trio_profile.cli.options import (
    Attention,
    Batch,
    Gamma,
    Json,
    MethodOptions,
    ModelName,
    OneMethod,
    PruneAfter,
    TextTokens,
    given,
)


def command(
    model: ModelName = None,
    method: OneMethod = None,
    retention: Annotated[
        float | None, typer.Option(help="Share of the visual tokens kept, averaged over layers. Without it: dense.")
    ] = None,
    layers: PruneAfter = None,
    option: MethodOptions = None,
    text_tokens: TextTokens = None,
    batch: Batch = None,
    device: Annotated[str, typer.Option(help="cpu, cuda, or meta: any size, without weights.")] = "cpu",
    attention: Attention = None,
    gamma: Gamma = None,
    claimed: Annotated[
        str | None, typer.Option(help="A printed figure for this prefill, e.g. 2.98e12: find its convention.")
    ] = None,
    convention: Annotated[
        str | None, typer.Option(help="Hold --claimed against this convention, e.g. all-ffn3-heads-flops.")
    ] = None,
    new_tokens: Annotated[int | None, typer.Option(help="Tokens to decode after the prefill. Default: 8.")] = None,
    causal: Annotated[
        Literal["dense", "half"], typer.Option(help="Count causal attention whole, as counters do, or halved.")
    ] = "dense",
    unit: Annotated[Literal["macs", "flops"], typer.Option(help="Of the table; JSON names its units.")] = "macs",
    out: Annotated[Path | None, typer.Option(help="Directory for flops.json and report.html.")] = None,
    json: Json = False,
) -> None:
    """Reconcile the claimed work of one prefill with what is counted, down to the last multiply-add."""
    fields = given(locals())
    from trio_profile.cli.publish import publish_flops
    from trio_profile.cost.conventions import figure, find
    from trio_profile.records.store import make_directory
    from trio_profile.studies import flops
    from trio_profile.studies import plan as study

    if method and retention is None:
        raise typer.BadParameter(f"--method {method} prunes to a retention: give --retention too")
    if convention and claimed is None:
        raise typer.BadParameter(f"--convention {convention} is for a printed figure: give --claimed too")
    claim = None if claimed is None else figure(claimed)
    against = None if convention is None else find(convention)
    asked = study.make(**fields)
    if out is not None:
        make_directory(out)
    document = flops.run(asked, dense=retention is None, causal=causal, claim=claim, convention=against)
    publish_flops(document, out, as_json=json, unit=unit)
