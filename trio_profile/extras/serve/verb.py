"""`trio-profile serve`: answer requests with a model, dense or pruned."""

import sys
from dataclasses import replace
from inspect import Parameter, Signature
from typing import Annotated, Any

import typer

from trio_profile.cli import options, printing
from trio_profile.cli.option import MODEL, SERVER, Option
from trio_profile.cli.options import OPTIONS
from trio_profile.errors import StudyError
from trio_profile.optional import require_serve, set_broken_torchvision_aside
from trio_profile.text import first_line

GROUP = "Run"
"""The heading under which the help lists the verb."""
RETENTION = 0.333
"""The retention of a method without `--retention`."""
_PRUNING = ("retention", "layers", "option", "budget_rule")
_OPTIONS: dict[str, Option] = {
    "method": replace(OPTIONS["method"], type=str, help="Prune by this method.", default="the dense model"),
    "retention": replace(
        OPTIONS["retention"],
        type=float,
        help="Share of the visual tokens kept, averaged over the decoder's layers.",
        default=str(RETENTION),
        metavar=None,
    ),
    **{name: OPTIONS[name] for name in ("layers", "option", "budget_rule", "dtype", "attention")},
    "device": replace(OPTIONS["device"], help="cpu or cuda."),
    "pixels": replace(OPTIONS["pixels"], panel=MODEL),
    "host": Option(
        SERVER, str, "Address to listen on. Whoever reaches it can use the model.", "127.0.0.1, this machine"
    ),
    "port": Option(SERVER, int, "Port to listen on; 0 takes a free one.", "8000", minimum=0, metavar="N"),
}


def command(model: str, host: str | None, port: int | None, method: str | None, **given: Any) -> None:
    """Answer chat completions with a model, dense or pruned: OpenAI's interface, on this machine, to try pruning.

    The server is that of transformers, with `prune` around the model. Requests run one after another, and
    `usage.prompt_tokens` counts the visual tokens that pruning kept.
    """
    if method is None and (named := next((name for name in _PRUNING if given[name]), None)):
        raise typer.BadParameter(f"--{named.replace('_', '-')} needs --method: name one, such as --method trio")
    require_serve("serve")
    set_broken_torchvision_aside()
    from trio_profile import units
    from trio_profile.studies.asked import make

    try:
        from trio_profile.extras.serve import listening
    except ImportError as error:
        raise StudyError(
            f"serve needs the server of transformers 5.23 or later ({first_line(error)}): "
            "pip install 'trio-profile[serve]'"
        ) from error

    share = RETENTION if given["retention"] is None else given["retention"]
    pruning = {"method": [method] if method else [], "retention": str(share)}
    study = make("sweep", options.fields({**given, "model": model, **pruning}))
    with listening.listen("127.0.0.1" if host is None else host, 8000 if port is None else port) as listener:
        served = listening.prepare(study, dense=method is None)
        how = "dense" if method is None else f"pruned by {method} at {units.percent(share)}"
        printing.write(f"{model}, {how}: {listening.address_of(listener)}; Ctrl-C stops the server")
        sys.stdout.flush()  # otherwise the line waits for more, where standard output is no terminal
        listening.run(served, listener)


_MODEL = typer.Argument(metavar="MODEL", help="pocket, a checkpoint directory, or a hub repository.")
command.__signature__ = Signature(  # pyright: ignore[reportFunctionMemberAccess] - typer reads it
    [
        Parameter("model", Parameter.KEYWORD_ONLY, annotation=Annotated[str, _MODEL]),
        *(options.parameter(name, option) for name, option in _OPTIONS.items()),
    ]
)
