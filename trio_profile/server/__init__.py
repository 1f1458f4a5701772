"""Serve a model, dense or pruned, through the server of transformers. Only this room needs the extra `serve`."""
