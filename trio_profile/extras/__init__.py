"""Optional parts. Each is a folder that can be deleted: nothing imports it, and `cli/verbs.py` finds its verb."""
