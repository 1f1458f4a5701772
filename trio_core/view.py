"""The old place of names that are now in the modules below."""

from trio_core._moved import moved

__getattr__ = moved(__name__, "trio_core", "trio_core.models.encoder", "trio_core.methods.view")
