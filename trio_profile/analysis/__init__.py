"""Pure functions from records to findings. Nothing here imports torch: a report is rebuilt on a laptop in a second."""
