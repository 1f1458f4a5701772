"""Serve a model, dense or pruned, through the server of transformers. Only this folder needs the extra `serve`."""
