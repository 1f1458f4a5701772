"""Renderers: each draws every kind of block. html is the page, terminal the terminal, markdown and latex are text."""

from trio_profile.render.html import render, write

__all__ = ["render", "write"]
