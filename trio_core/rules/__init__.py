"""The equations and selection rules: tensors and callables in, tensors out. They know no model and no method."""
