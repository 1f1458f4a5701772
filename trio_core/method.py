"""The old place of these names. Import them from the module beside each."""

from trio_core._moved import moved

__getattr__ = moved(
    __name__,
    {
        "Method": "trio_core",
        "Reference": "trio_core",
        "Stage": "trio_core",
        "ScoreMethod": "trio_core",
        "Positions": "trio_core.methods.method",
        "BudgetRule": "trio_core.methods.method",
        "registry": "trio_core.methods.method",
        "LayerShape": "trio_core",
        "Sizes": "trio_core",
    },
)
