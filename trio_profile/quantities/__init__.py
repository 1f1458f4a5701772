"""The quantities of a cell, one file each: how a quantity is summarised, and in which columns tables show it.

A file that is put here is found: its quantity stands in `--json`, in the export, in the table of break-evens, and in
every table that names one of its columns. `registry.py` finds the files.
"""
