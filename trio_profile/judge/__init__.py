"""Judges of figures: the audit of a paper."""
