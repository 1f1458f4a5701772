"""The kind `theory`: what the paper says of saliency, measured."""
