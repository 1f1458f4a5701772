"""The report: figures → pages → one self-contained html, rebuilt from a document without torch or a network."""

from trio_profile.render.html import render, write

__all__ = ["render", "write"]
