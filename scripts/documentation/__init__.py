"""What the documentation site is made with: its generated pages, its links, and how docstrings are drawn.

`scripts/site` and `scripts/reference` use it. It is not installed.
"""
