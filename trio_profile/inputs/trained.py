"""The built-in models with trained weights: where their files lie, and by which file another training is recognised."""

from pathlib import Path

from trio_profile.records.facts import models

_DATA = Path(__file__).parents[1] / "data"
TRAINED = {"pocket": _DATA / "pocket", "pocket-video": _DATA / "pocket", "smol": _DATA / "smol"}
"""The built-in models with trained weights, and the directory of their files. `scripts/train_pocket` and
`scripts/train_smol` made them."""
WARNINGS = {
    "smol": "smol is two small pretrained models, joined by a short training on drawn shapes: its answers say "
    "nothing of your model.",
    **{
        name: f"{name} is a toy model that answers questions about drawn shapes: this says nothing of your model."
        for name in ("pocket", "pocket-video")
    },
}
"""The warning on each page about them."""
RECIPES = {"recipe.json": "pocket", "smol.json": "smol"}
"""The file that a training writes beside its checkpoint, and the model whose questions the checkpoint answers."""


def trained_as(model: str) -> str | None:
    """Return the built-in model whose questions a model was trained to answer; None if there is none.

    model: a built-in model, or the directory of a checkpoint.
    """
    if model in models():
        return model if model in TRAINED else None
    return next((name for file, name in RECIPES.items() if (Path(model) / file).is_file()), None)
