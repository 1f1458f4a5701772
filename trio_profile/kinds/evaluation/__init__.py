"""The kind `eval`: tasks of lmms-eval, scored for several methods and the dense model."""
