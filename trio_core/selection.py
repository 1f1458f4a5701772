"""The old place of names that are now in the modules below."""

from trio_core._moved import moved

__getattr__ = moved(
    __name__, "trio_core.rules.selection", "trio_core.rules.nms", "trio_core.rules.schedule", "trio_core.methods.crops"
)
