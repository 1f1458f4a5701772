"""The kind `flops`: reconcile the claimed work with the counted work."""
