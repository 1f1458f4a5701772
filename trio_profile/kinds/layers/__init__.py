"""The kind `layers`: the time of every decoder layer and stage."""
