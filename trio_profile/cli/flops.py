"""`trio-profile flops`: from the formula's figure to the counted one, term by term."""

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from trio_profile.cli.options import Json, assignments, numbers


def command(
    model: Annotated[str | None, typer.Option(help="A built-in model, a checkpoint directory, or a hub name.")] = None,
    method: Annotated[str | None, typer.Option(help="Method, or package.module:Class. Default: trio.")] = None,
    retention: Annotated[
        float | None, typer.Option(help="Share of the visual tokens kept, averaged over layers. Without it: dense.")
    ] = None,
    layers: Annotated[str | None, typer.Option(help="Comma list: prune after these decoder layers.")] = None,
    option: Annotated[
        list[str] | None, typer.Option("--option", "-o", help="An option of the method, name=value; repeatable.")
    ] = None,
    text_tokens: Annotated[int | None, typer.Option(help="Text tokens beside a drawn picture. Default: 60.")] = None,
    batch: Annotated[int | None, typer.Option(help="Samples in a batch. Default: 1.")] = None,
    device: Annotated[str, typer.Option(help="cpu, cuda, or meta: any size, without weights.")] = "cpu",
    attention: Annotated[str | None, typer.Option(help="eager, sdpa … Default: sdpa.")] = None,
    gamma: Annotated[float | None, typer.Option(help="Backward factor of the paper's F_ov. Default: 1.")] = None,
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
    from trio_profile import flops, study
    from trio_profile.analysis.conventions import figure, find
    from trio_profile.cli.publish import publish_flops

    given: dict[str, Any] = {
        "model": model,
        "methods": (method,) if method else None,
        "retentions": (retention,) if retention is not None else None,
        "layers": numbers(layers, "--layers", int),
        "options": assignments(option) if option else None,
        "text_tokens": text_tokens,
        "new_tokens": new_tokens,
        "batch": batch,
        "device": device,
        "attention": attention,
        "gamma": gamma,
    }
    if method and retention is None:
        raise typer.BadParameter(f"--method {method} prunes to a retention: give --retention too")
    if convention and claimed is None:
        raise typer.BadParameter(f"--convention {convention} is for a printed figure: give --claimed too")
    claim = None if claimed is None else figure(claimed)
    against = None if convention is None else find(convention)
    asked = study.make(**{name: value for name, value in given.items() if value is not None})
    document = flops.run(asked, dense=retention is None, causal=causal, claim=claim, convention=against)
    publish_flops(document, out, as_json=json, unit=unit)
