"""The kind `theory`."""

from trio_profile.studies.kind import MODEL, Kind

KIND = Kind(
    name="theory",
    group="Paper",
    summary="Compare the paper's bound with the divergence that removing tokens causes, stage by stage.\n\n"
    "It also compares each layer's saliency with the last layer's, and says which share of the visual tokens "
    "lies above the layer's mean, benchmark by benchmark.",
    options=(*MODEL, "retentions", "questions", "frames", "fps", "fidelity_inputs"),
    runner="trio_profile.extras.theory.run:run",
    document="trio_profile.extras.theory.document:TheoryDocument",
    report="trio_profile.extras.theory.report:report",
    preview="trio_profile.extras.theory.run:preview",
    file="theory.json",
    rows="layers",
    defaults={"retentions": (0.05, 0.11, 0.33, 0.66), "fidelity_inputs": 30},
    several=("retentions", "questions"),
)
