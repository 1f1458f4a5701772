"""Options that several verbs share, and how their text becomes values."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from trio_profile.records.schema import Study

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document on standard output, nothing else.")]
Out = Annotated[Path, typer.Option("--out", help="Directory that holds the study; made if missing.")]

# What a study is made of.
ModelName = Annotated[
    str | None,
    typer.Option("--model", help="A built-in model, a checkpoint directory, or a hub name. Default: pocket."),
]
OneMethod = Annotated[str | None, typer.Option("--method", help="Method, or package.module:Class. Default: trio.")]
PruneAfter = Annotated[
    str | None, typer.Option("--layers", help="Comma list: prune after these decoder layers. Default: the paper's.")
]
MethodOptions = Annotated[
    list[str] | None, typer.Option("--option", "-o", help="An option of the method, name=value; repeatable.")
]
Picture = Annotated[Path | None, typer.Option("--image", help="A picture file for a model that has a processor.")]
Prompt = Annotated[str | None, typer.Option("--prompt", help="What is asked of the picture.")]
Questions = Annotated[
    Path | None,
    typer.Option("--questions", help="A file of questions about pictures, JSON Lines: image, question, answer, kind."),
]
TextTokens = Annotated[
    int | None,
    typer.Option(help="Text tokens beside a drawn picture. Default: 60, or the question of a model that has some."),
]
Batch = Annotated[int | None, typer.Option(help="Samples in a batch. Default: 1.")]
Device = Annotated[str | None, typer.Option(help="cpu or cuda. Default: cuda where there is one.")]
Dtype = Annotated[
    str | None, typer.Option(help="float32, bfloat16 or float16. Default: bfloat16 on CUDA, else float32.")
]
Attention = Annotated[str | None, typer.Option(help="eager, sdpa, flash_attention_2 … Default: sdpa.")]
Gamma = Annotated[float | None, typer.Option(help="Backward factor of the paper's F_ov. Default: 1.")]
Precision = Annotated[
    float | None, typer.Option(help="Half width of a speed-up's interval to sample for. Default: 0.01.")
]
NewTokens = Annotated[int | None, typer.Option(help="Tokens generated in each run. Default: 8.")]
PrerollMs = Annotated[
    float | None, typer.Option(help="CUDA: let the host run ahead by so long, for device time alone. Default: 0.")
]
ColdL2 = Annotated[
    bool | None, typer.Option("--cold-l2/--warm-l2", help="CUDA: overwrite the L2 cache before each run.")
]
Seed = Annotated[int | None, typer.Option(help="Seed of weights, inputs and order. Default: 0.")]


def numbers(text: str | None, name: str, kind: Callable[[str], Any]) -> tuple[Any, ...] | None:
    """A comma list: `0.22,0.55` → (0.22, 0.55). Raises BadParameter naming the part that is none."""
    if text is None:
        return None
    parts = [part.strip() for part in text.split(",") if part.strip()]
    try:
        return tuple(kind(part) for part in parts)
    except ValueError as error:
        raise typer.BadParameter(f"{name} {text!r} is not a comma list of numbers ({error})") from error


def assignments(texts: list[str]) -> dict[str, Any]:
    """`["threshold=0.9", "nms=false"]` → {"threshold": 0.9, "nms": False}. Raises BadParameter for what has no `=`."""
    values: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise typer.BadParameter(f"option {text!r} is not of the form name=value")
        try:
            values[name] = json.loads(value)
        except ValueError:
            values[name] = value
        if not isinstance(values[name], bool | int | float | str):
            raise typer.BadParameter(f"option {text!r}: the value must be a number, true, false or a word")
    return values


def print_document(text: str) -> None:
    """One JSON document on standard output."""
    sys.stdout.write(text + "\n")


def given(options: dict[str, Any]) -> dict[str, Any]:
    """A verb's options that were given, as fields of a study: `given(locals())`, before anything else is named.

    Options are named as the fields are, apart from those of which a verb takes one where a study takes several; what is
    no field is the verb's own business. Raises BadParameter for text that cannot be read.
    """
    from trio_profile.records.schema import Study

    fields: dict[str, Any] = {}
    for name, value in options.items():
        field, read = _READ.get(name, (name, lambda same: same))
        if value not in (None, []) and field in Study.model_fields:
            fields[field] = read(value)
    return fields


_READ: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "method": ("methods", lambda value: (value,) if isinstance(value, str) else tuple(value)),
    "retention": (
        "retentions",
        lambda value: (value,) if isinstance(value, float) else numbers(value, "--retention", float),
    ),
    "layers": ("layers", lambda value: numbers(value, "--layers", int)),
    "option": ("options", assignments),
    "image": ("image", lambda path: str(path.resolve())),
    "questions": ("questions", lambda path: str(path.resolve())),
    "asked": ("fidelity_inputs", int),
}
"""Options whose name or whose value is not the field's: the field, and how the value is read."""


def studied(fields: dict[str, Any]) -> "Study":
    """A study of these fields, on CUDA in bfloat16 where there is one and nothing else was said."""
    import torch

    from trio_profile.studies import plan as study

    fields = dict(fields)
    fields.setdefault("device", "cuda" if torch.cuda.is_available() else "cpu")
    fields.setdefault("dtype", "bfloat16" if str(fields["device"]).startswith("cuda") else "float32")
    return study.make(**fields)
