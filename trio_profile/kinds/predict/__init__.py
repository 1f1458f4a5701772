"""The kind `predict`: what a GPU that is not here would give, from tables of operators."""
