"""`trio-profile layers`: where the time of one prefill goes, layer by layer, and why a claim did not become time."""

from pathlib import Path
from typing import Annotated

import typer

from trio_profile.cli.options import (
    Attention,
    Batch,
    ColdL2,
    Device,
    Dtype,
    Gamma,
    Json,
    MethodOptions,
    ModelName,
    NewTokens,
    OneMethod,
    Picture,
    Precision,
    PrerollMs,
    Prompt,
    PruneAfter,
    Seed,
    TextTokens,
    given,
    studied,
)


def command(
    model: ModelName = None,
    method: OneMethod = None,
    retention: Annotated[float, typer.Option(help="Share of the visual tokens kept, averaged over layers.")] = 0.111,
    layers: PruneAfter = None,
    option: MethodOptions = None,
    image: Picture = None,
    prompt: Prompt = None,
    text_tokens: TextTokens = None,
    new_tokens: NewTokens = None,
    batch: Batch = None,
    device: Device = None,
    dtype: Dtype = None,
    attention: Attention = None,
    gamma: Gamma = None,
    precision: Precision = None,
    preroll_ms: PrerollMs = None,
    cold_l2: ColdL2 = None,
    seconds: Annotated[float, typer.Option(help="Measured time at which sampling stops anyway.")] = 20.0,
    seed: Seed = None,
    out: Annotated[Path | None, typer.Option(help="Directory for layers.json, trace.json and report.html.")] = None,
    json: Json = False,
) -> None:
    """Time every decoder layer and stage of one prefill, dense beside pruned."""
    fields = given(locals()) | {"cell_seconds": seconds}
    from trio_profile.cli.publish import publish_layers
    from trio_profile.records.store import make_directory
    from trio_profile.studies import layers as timed

    if out is not None:
        make_directory(out)
    publish_layers(timed.run(studied(fields), out=out), out, as_json=json)
