"""`trio-profile sweep`: retentions → times, work, cache → break-even → report. The main job."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

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
    Out,
    Picture,
    Precision,
    PrerollMs,
    Prompt,
    PruneAfter,
    Questions,
    Seed,
    TextTokens,
    given,
    print_document,
    studied,
)

if TYPE_CHECKING:
    from trio_profile.records.schema import Study


def command(
    model: ModelName = None,
    method: Annotated[
        list[str] | None, typer.Option(help="Method; repeat for several, or package.module:Class. Default: trio.")
    ] = None,
    retention: Annotated[
        str | None, typer.Option(help="Comma list: shares of the visual tokens kept, averaged over layers.")
    ] = None,
    layers: PruneAfter = None,
    option: MethodOptions = None,
    image: Picture = None,
    prompt: Prompt = None,
    questions: Questions = None,
    asked: Annotated[
        int | None, typer.Option("--asked", help="How many questions are asked. Default: all of a file, 200 of pocket.")
    ] = None,
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
    cell_seconds: Annotated[float | None, typer.Option(help="Measured seconds a cell at the most. Default: 5.")] = None,
    seed: Seed = None,
    study: Annotated[Path | None, typer.Option(help="A study.toml; options on the line go before it.")] = None,
    out: Out = Path("runs/sweep"),
    resume: Annotated[
        bool, typer.Option("--resume/--no-resume", help="Go on with what is in --out, or refuse a directory in use.")
    ] = True,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the cells and their cost, measure nothing.")
    ] = False,
    json: Json = False,
) -> None:
    """Sweep retentions: speed-up, work, cache and break-even, with a report. Finished cells are not run again."""
    made = _study(study, given(locals()))
    if dry_run:
        _dry_run(made, json)
        return
    _run(made, out, resume, json)


def _study(file: Path | None, fields: dict[str, Any]) -> "Study":
    from trio_profile.studies import plan as studies

    return studied({**(studies.read(file) if file else {}), **fields})


def _dry_run(asked: "Study", as_json: bool) -> None:
    from trio_profile.cli import tables
    from trio_profile.inputs.workload import shape_of
    from trio_profile.studies.plan import plan

    shape = shape_of(asked)
    planned = plan(asked, shape)
    if as_json:
        print_document(tables.plan_document(asked, shape, planned))
    else:
        tables.print_plan(asked, shape, planned)


def _run(asked: "Study", out: Path, resume: bool, as_json: bool) -> None:
    from trio_profile.cli.progress import progress
    from trio_profile.cli.publish import publish
    from trio_profile.errors import StoreError
    from trio_profile.records.store import Store
    from trio_profile.studies import sweep

    if not resume and Store(out).exists():
        raise StoreError(f"{out} holds measurements already, and --no-resume was asked for; choose another --out")
    with progress() as watch:
        contents = sweep.run(asked, out, watch=watch)
    publish(contents, out, as_json=as_json)
