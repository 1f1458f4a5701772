"""Checks of an audit, one in each file."""
