"""Optional parts. Each is a folder that can be deleted: nothing imports it, and `trio_profile/parts.py` finds it."""
