"""How pruning runs inside a model's forward."""
