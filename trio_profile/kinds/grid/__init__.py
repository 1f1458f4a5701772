"""The kinds that are measured cell by cell: `sweep`, `compare` and `ablate`."""
