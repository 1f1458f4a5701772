"""Measure a study on a Ray cluster. Only this folder needs the extra `ray`."""
