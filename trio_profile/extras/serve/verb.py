"""`trio-profile serve`: answer requests with a model, dense or pruned."""

import sys
from inspect import Parameter, Signature
from typing import Annotated, Any

import typer

from trio_profile.cli import options, printing
from trio_profile.cli.common_options import keyword
from trio_profile.errors import StudyError
from trio_profile.installation import install_command
from trio_profile.optional import require, require_run, set_broken_torchvision_aside
from trio_profile.records.option import METHOD, SERVER
from trio_profile.records.study import Study
from trio_profile.text import first_line

GROUP = "Run"
"""The heading under which the help lists the verb."""
SERVER_MODULES = ("fastapi", "uvicorn", "openai")
"""The modules that the extra `serve` brings and that transformers' server needs."""
RETENTION = 0.333
"""The retention of a method without `--retention`."""
_PRUNING = ("retention", "layers", "options")


def _option(text: str, panel: str, **more: Any) -> Any:
    return typer.Option(help=text, rich_help_panel=panel, show_default=False, **more)


_OPTIONS: dict[str, Any] = {
    "method": Annotated[str | None, _option("Prune by this method. Default: the dense model.", METHOD)],
    "retention": Annotated[
        float | None,
        _option(f"Share of the visual tokens kept, averaged over the decoder's layers. Default: {RETENTION}.", METHOD),
    ],
    **{name: options.declared(Study, name) for name in ("layers", "options", "device", "dtype", "attention", "pixels")},
    "host": Annotated[
        str | None,
        _option("Address to listen on. Who reaches it can use the model. Default: 127.0.0.1, this machine.", SERVER),
    ],
    "port": Annotated[
        int | None, _option("Port to listen on; 0 takes a free one. Default: 8000.", SERVER, min=0, metavar="N")
    ],
}


def command(model: str, host: str | None, port: int | None, method: str | None, **values: Any) -> None:
    """Answer chat completions with a model, dense or pruned: OpenAI's interface, on this machine, to try pruning.

    The server is that of transformers, with `prune` around the model. Requests run one after another, and
    `usage.prompt_tokens` counts the visual tokens that pruning kept.
    """
    if method is None and (named := next((name for name in _PRUNING if values[name]), None)):
        raise typer.BadParameter(
            f"--{named.replace('options', 'option')} needs --method: name one, such as --method trio"
        )
    require("serve", "serve", SERVER_MODULES)
    require_run("serve")
    set_broken_torchvision_aside()
    from trio_profile import units
    from trio_profile.study.asked import make

    try:
        from trio_profile.extras.serve import listening
    except ImportError as error:
        raise StudyError(
            f"serve needs the server of transformers ({first_line(error)}): {install_command('serve')}"
        ) from error

    share = RETENTION if values["retention"] is None else values["retention"]
    pruning = {"methods": [method] if method else [], "retentions": str(share)}
    study = make("sweep", options.fields(Study, {**values, "model": model, **pruning}))
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
        *(keyword(name, type_) for name, type_ in _OPTIONS.items()),
    ]
)
