"""Functions that turn records into documents. Nothing here imports torch, so a report needs none."""
