"""`trio-profile serve`: answer requests with a model, dense or pruned."""

import sys
from functools import partial
from inspect import Parameter, Signature
from typing import Annotated, Any

import typer

from trio_profile.cli import options, printing
from trio_profile.cli.common_options import keyword
from trio_profile.optional import require, require_run
from trio_profile.records.option import METHOD, SERVER
from trio_profile.records.study import Study

GROUP = "Run"
"""The heading under which the help lists the verb."""
SERVER_MODULES = ("fastapi", "uvicorn")
"""The modules that the extra `serve` brings."""
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
    "allow_host": Annotated[
        list[str] | None, _option("A further name of this server. It can be repeated.", SERVER, metavar="NAME")
    ],
}


def command(
    model: str, host: str | None, port: int | None, allow_host: list[str] | None, method: str | None, **values: Any
) -> None:
    """Answer chat completions with a model, dense or pruned: OpenAI's interface, on this machine, to try pruning.

    Requests run one after another, and `usage.prompt_tokens` counts the visual tokens that pruning kept. No request
    makes the server open a file or ask another one.
    """
    if method is None and (named := next((name for name in _PRUNING if values[name]), None)):
        raise typer.BadParameter(
            f"--{named.replace('options', 'option')} needs --method: name one, such as --method trio"
        )
    require("serve", "serve", SERVER_MODULES)
    require_run("serve")
    from trio_profile import units
    from trio_profile.extras.serve import server
    from trio_profile.extras.serve.worker import Worker, work
    from trio_profile.study.asked import make

    share = RETENTION if values["retention"] is None else values["retention"]
    pruning = {"methods": [method] if method else [], "retentions": str(share)}
    study = make("sweep", options.fields(Study, {**values, "model": model, **pruning}))
    host = "127.0.0.1" if host is None else host
    with server.listen(host, 8000 if port is None else port) as listener:
        worker = Worker(partial(work, study, method is None))
        how = "dense" if method is None else f"pruned by {method} at {units.percent(share)}"
        printing.write(f"{model}, {how}: {server.address_of(listener)}; Ctrl-C stops the server")
        sys.stdout.flush()  # otherwise the line waits for more, where standard output is no terminal
        try:
            server.Server(worker, model, {name.lower() for name in (host, *(allow_host or ()))}).run([listener])
        finally:
            worker.close()


_MODEL = typer.Argument(metavar="MODEL", help="pocket, smol, a checkpoint directory, or a hub repository.")
command.__signature__ = Signature(  # pyright: ignore[reportFunctionMemberAccess] - typer reads it
    [
        Parameter("model", Parameter.KEYWORD_ONLY, annotation=Annotated[str, _MODEL]),
        *(keyword(name, type_) for name, type_ in _OPTIONS.items()),
    ]
)
