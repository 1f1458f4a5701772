"""The records of a study, and the files that hold them. Nothing here imports torch."""
