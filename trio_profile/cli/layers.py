"""`trio-profile layers`: where the time of one prefill goes, layer by layer, and why a claim did not become time."""

from pathlib import Path
from typing import Annotated, Any

import typer

from trio_profile.cli.options import Json, assignments, numbers


def command(
    model: Annotated[str | None, typer.Option(help="A built-in model, a checkpoint directory, or a hub name.")] = None,
    method: Annotated[str | None, typer.Option(help="Method, or package.module:Class. Default: trio.")] = None,
    retention: Annotated[float, typer.Option(help="Share of the visual tokens kept, averaged over layers.")] = 0.111,
    layers: Annotated[str | None, typer.Option(help="Comma list: prune after these decoder layers.")] = None,
    option: Annotated[
        list[str] | None, typer.Option("--option", "-o", help="An option of the method, name=value; repeatable.")
    ] = None,
    image: Annotated[Path | None, typer.Option(help="A picture; needs a checkpoint with a processor.")] = None,
    prompt: Annotated[str | None, typer.Option(help="A prompt; needs a checkpoint with a processor.")] = None,
    text_tokens: Annotated[int | None, typer.Option(help="Text tokens beside a drawn picture. Default: 60.")] = None,
    batch: Annotated[int | None, typer.Option(help="Samples in a batch. Default: 1.")] = None,
    device: Annotated[str | None, typer.Option(help="cpu or cuda. Default: cuda where there is one.")] = None,
    dtype: Annotated[str | None, typer.Option(help="float32, bfloat16, float16. Default: bfloat16 on cuda.")] = None,
    attention: Annotated[str | None, typer.Option(help="eager, sdpa … Default: sdpa.")] = None,
    gamma: Annotated[float | None, typer.Option(help="Backward factor of the paper's F_ov. Default: 1.")] = None,
    precision: Annotated[
        float | None, typer.Option(help="Of the speed-up: stop at this half width. Default: 0.01.")
    ] = None,
    seconds: Annotated[float, typer.Option(help="Measured time at which sampling stops anyway.")] = 20.0,
    seed: Annotated[int | None, typer.Option(help="Of the drawn input and the order. Default: 0.")] = None,
    out: Annotated[Path | None, typer.Option(help="Directory for layers.json, trace.json and report.html.")] = None,
    json: Json = False,
) -> None:
    """Time every decoder layer and stage of one prefill, dense beside pruned."""
    from trio_profile import layers as timed
    from trio_profile.cli.options import studied
    from trio_profile.cli.publish import publish_layers

    given: dict[str, Any] = {
        "model": model,
        "methods": (method,) if method else None,
        "retentions": (retention,),
        "layers": numbers(layers, "--layers", int),
        "options": assignments(option) if option else None,
        "image": str(image.resolve()) if image else None,
        "prompt": prompt,
        "text_tokens": text_tokens,
        "batch": batch,
        "device": device,
        "dtype": dtype,
        "attention": attention,
        "gamma": gamma,
        "precision": precision,
        "cell_seconds": seconds,
        "seed": seed,
    }
    publish_layers(timed.run(studied(given), out=out), out, as_json=json)
