"""`trio-profile serve`: answer requests with a model, dense or pruned."""

import sys
from typing import Annotated, Any, Literal

import typer

from trio_profile.cli import options, printing
from trio_profile.cli.options import METHOD, MODEL, OPTIONS
from trio_profile.extras import require_serve

SERVER = "Server"
"""Panel of the help."""
RETENTION = 0.333
"""The retention of a method without `--retention`."""


def command(
    model: Annotated[
        str, typer.Argument(metavar="MODEL", help="pocket, a checkpoint directory, or a hub repository.")
    ],
    method: Annotated[
        str | None,
        typer.Option(help="Prune by this method. Default: the dense model.", rich_help_panel=METHOD),
    ] = None,
    retention: Annotated[
        float | None,
        typer.Option(
            help=f"Share of the visual tokens kept, averaged over the decoder's layers. Default: {RETENTION}.",
            rich_help_panel=METHOD,
        ),
    ] = None,
    layers: Annotated[
        str | None, typer.Option(help=OPTIONS["layers"].help, metavar="LAYERS", rich_help_panel=METHOD)
    ] = None,
    option: Annotated[
        list[str] | None,
        typer.Option("--option", "-o", help=OPTIONS["option"].help, metavar="NAME=VALUE", rich_help_panel=METHOD),
    ] = None,
    budget_rule: Annotated[
        Literal["average", "after-prune", "final"] | None,
        typer.Option(help=f"{OPTIONS['budget_rule'].help} Default: average.", rich_help_panel=METHOD),
    ] = None,
    device: Annotated[
        str | None, typer.Option(help="cpu or cuda. Default: cuda if there is one.", rich_help_panel=MODEL)
    ] = None,
    dtype: Annotated[
        Literal["float32", "bfloat16", "float16"] | None,
        typer.Option(
            help="Number format. Default: bfloat16 on CUDA, otherwise float32.", rich_help_panel=MODEL
        ),
    ] = None,
    attention: Annotated[
        str | None, typer.Option(help=f"{OPTIONS['attention'].help} Default: sdpa.", rich_help_panel=MODEL)
    ] = None,
    pixels: Annotated[
        str | None, typer.Option(help=OPTIONS["pixels"].help, metavar="LEAST,MOST", rich_help_panel=MODEL)
    ] = None,
    host: Annotated[
        str,
        typer.Option(
            help="The address to listen on. Whoever reaches it can use the model. Default: 127.0.0.1, this machine.",
            show_default=False,
            rich_help_panel=SERVER,
        ),
    ] = "127.0.0.1",
    port: Annotated[
        int,
        typer.Option(
            min=0,
            max=65535,
            help="The port to listen on; 0 takes a free one. Default: 8000.",
            show_default=False,
            rich_help_panel=SERVER,
        ),
    ] = 8000,
) -> None:
    """Answer OpenAI's chat completions with a model, dense or pruned. To try pruning; no server for production.

    It is transformers' server, with `prune` around the model. Requests run one after another. `usage.prompt_tokens`
    counts the visual tokens that pruning kept.
    """
    pruning = {"retention": retention, "layers": layers, "option": option or None, "budget_rule": budget_rule}
    if method is None and (given := next((name for name, value in pruning.items() if value is not None), None)):
        raise typer.BadParameter(f"--{given.replace('_', '-')} needs --method: name one, such as --method trio")
    require_serve("serve")
    from trio_profile import units
    from trio_profile.server import listening
    from trio_profile.studies.asked import make

    loading = {"model": model, "device": device, "dtype": dtype, "attention": attention, "pixels": pixels}
    fields: dict[str, Any] = options.fields({**loading, **pruning, "retention": None})
    share = RETENTION if retention is None else retention
    study = make("sweep", {**fields, "retentions": (share,), **({"methods": (method,)} if method else {})})
    with listening.listen(host, port) as listener:
        served = listening.prepare(study, dense=method is None)
        how = "dense" if method is None else f"pruned by {method} at {units.percent(share)}"
        printing.write(f"{model}, {how}: {listening.address_of(listener)}; Ctrl-C stops the server")
        sys.stdout.flush()  # it waits for more otherwise, where it is no terminal
        listening.run(served, listener)
