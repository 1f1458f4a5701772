"""`trio-profile eval`: what tasks of lmms-eval say of a pruned model, and the times of the same answers."""

from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any

import typer

from trio_profile.cli.options import (
    Attention,
    Device,
    Dtype,
    Json,
    MethodOptions,
    ModelName,
    OneMethod,
    PruneAfter,
    Seed,
    given,
    studied,
)


def command(
    tasks: Annotated[str, typer.Option(help="Comma list of lmms-eval's tasks, e.g. pope,gqa.")],
    model: ModelName = None,
    method: OneMethod = None,
    retention: Annotated[float, typer.Option(help="Share of the visual tokens kept, averaged over layers.")] = 0.333,
    layers: PruneAfter = None,
    option: MethodOptions = None,
    task_path: Annotated[Path | None, typer.Option(help="Directory with YAML files of tasks of your own.")] = None,
    limit: Annotated[int | None, typer.Option(help="The first so many questions of each task. Default: all.")] = None,
    dense: Annotated[
        bool, typer.Option("--dense/--no-dense", help="Ask the dense model too, in turn: differences and speed-ups.")
    ] = True,
    device: Device = None,
    dtype: Dtype = None,
    attention: Attention = None,
    seed: Seed = None,
    out: Annotated[Path | None, typer.Option(help="Directory for evaluation.json and answers.jsonl.")] = None,
    json: Json = False,
) -> None:
    """Accuracy and time from the same run: lmms-eval's tasks put to the pruned model and to the dense one in turn.

    Needs the extra `eval`, which brings lmms-eval.
    """
    fields = given(locals())
    from trio_profile.cli.progress import progress
    from trio_profile.cli.publish import publish_evaluation
    from trio_profile.records.store import appending, make_directory

    if limit is not None and limit < 1:
        raise typer.BadParameter(f"--limit {limit}: an evaluation needs at least 1 question")
    evaluation = _evaluation()
    study = studied(fields)
    names = [name.strip() for name in tasks.split(",") if name.strip()]
    with ExitStack() as stack:
        keep = None
        if out is not None:
            make_directory(out)
            keep = stack.enter_context(appending(out / "answers.jsonl"))
        document = evaluation.run(
            study,
            names,
            task_path=task_path,
            limit=limit,
            dense=dense,
            watch=stack.enter_context(progress()),
            keep=keep,
        )
    publish_evaluation(document, out, as_json=json)


def _evaluation() -> Any:
    try:
        from trio_profile.studies import eval as evaluation
    except ImportError as error:
        raise typer.BadParameter(f"eval needs lmms-eval ({error}): pip install 'trio-profile[eval]'") from error
    return evaluation
