"""The pocket model's world: rendered pictures, questions about them, and how the model was trained on both."""

from pathlib import Path

_POCKET = Path(__file__).parents[2] / "data" / "pocket"
TRAINED = {"pocket": _POCKET, "pocket-video": _POCKET}
"""The built-in models with trained weights, and the directory of each. `scripts/train_pocket` made them."""
RECIPE = "recipe.json"
"""The file that training writes beside a checkpoint. It shows that the model can be asked the exam's questions."""
