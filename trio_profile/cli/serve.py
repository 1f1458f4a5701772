"""`trio-profile serve`: answer requests with a model, dense or pruned."""

import sys
from typing import Annotated, Any, Literal

import typer

from trio_profile.cli import options, printing
from trio_profile.cli.options import METHOD, MODEL, OPTIONS
from trio_profile.errors import StudyError
from trio_profile.extras import require_serve
from trio_profile.text import first_line

SERVER = "Server"
"""Panel of the help."""
RETENTION = 0.333
"""The retention of a method without `--retention`."""


def _option(panel: str, text: str, *names: str, **more: Any) -> Any:
    """How typer reads an option. text: its help, with its default."""
    return typer.Option(*names, help=text, rich_help_panel=panel, show_default=False, **more)


MODEL_NAME = Annotated[
    str, typer.Argument(metavar="MODEL", help="pocket, a checkpoint directory, or a hub repository.")
]
METHOD_NAME = Annotated[str | None, _option(METHOD, "Prune by this method. Default: the dense model.")]
KEPT_SHARE = Annotated[
    float | None,
    _option(METHOD, f"Share of the visual tokens kept, averaged over the decoder's layers. Default: {RETENTION}."),
]
LAYERS = Annotated[
    str | None, _option(METHOD, f"{OPTIONS['layers'].help} Default: {OPTIONS['layers'].default}.", metavar="LAYERS")
]
OPTION = Annotated[list[str] | None, _option(METHOD, OPTIONS["option"].help, "--option", "-o", metavar="NAME=VALUE")]
BUDGET_RULE = Annotated[
    Literal["average", "after-prune", "final"] | None,
    _option(METHOD, f"{OPTIONS['budget_rule'].help} Default: average."),
]
DEVICE = Annotated[str | None, _option(MODEL, f"cpu or cuda. Default: {OPTIONS['device'].default}.")]
DTYPE = Annotated[
    Literal["float32", "bfloat16", "float16"] | None,
    _option(MODEL, f"{OPTIONS['dtype'].help} Default: {OPTIONS['dtype'].default}."),
]
ATTENTION = Annotated[str | None, _option(MODEL, f"{OPTIONS['attention'].help} Default: sdpa.")]
PIXELS = Annotated[
    str | None,
    _option(MODEL, f"{OPTIONS['pixels'].help} Default: {OPTIONS['pixels'].default}.", metavar="LEAST,MOST"),
]
HOST = Annotated[
    str,
    _option(SERVER, "Address to listen on. Whoever reaches it can use the model. Default: 127.0.0.1, this machine."),
]
PORT = Annotated[
    int, _option(SERVER, "Port to listen on; 0 takes a free one. Default: 8000.", min=0, max=65535, metavar="N")
]


def command(
    model: MODEL_NAME,
    method: METHOD_NAME = None,
    retention: KEPT_SHARE = None,
    layers: LAYERS = None,
    option: OPTION = None,
    budget_rule: BUDGET_RULE = None,
    device: DEVICE = None,
    dtype: DTYPE = None,
    attention: ATTENTION = None,
    pixels: PIXELS = None,
    host: HOST = "127.0.0.1",
    port: PORT = 8000,
) -> None:
    """Answer chat completions with a model, dense or pruned: OpenAI's interface, on this machine, to try pruning.

    The server is that of transformers, with `prune` around the model. Requests run one after another, and
    `usage.prompt_tokens` counts the visual tokens that pruning kept.
    """
    pruning = {"retention": retention, "layers": layers, "option": option or None, "budget_rule": budget_rule}
    if method is None and (given := next((name for name, value in pruning.items() if value is not None), None)):
        raise typer.BadParameter(f"--{given.replace('_', '-')} needs --method: name one, such as --method trio")
    require_serve("serve")
    from trio_profile import units
    from trio_profile.studies.asked import make

    try:
        from trio_profile.server import listening
    except ImportError as error:
        raise StudyError(
            f"serve needs the server of transformers 5.23 or later ({first_line(error)}): "
            "pip install 'trio-profile[serve]'"
        ) from error

    share = RETENTION if retention is None else retention
    loading = {"model": model, "device": device, "dtype": dtype, "attention": attention, "pixels": pixels}
    fields = options.fields({**loading, **pruning, "retention": str(share), "method": [method] if method else []})
    study = make("sweep", fields)
    with listening.listen(host, port) as listener:
        served = listening.prepare(study, dense=method is None)
        how = "dense" if method is None else f"pruned by {method} at {units.percent(share)}"
        printing.write(f"{model}, {how}: {listening.address_of(listener)}; Ctrl-C stops the server")
        sys.stdout.flush()  # otherwise the line waits for more, where standard output is no terminal
        listening.run(served, listener)
