"""The kind `theory`."""

from trio_profile.study.kind import MODEL, Kind

KIND = Kind(
    name="theory",
    group="Paper",
    place=2,
    summary="Compare the paper's bound with the divergence that removing tokens causes, stage by stage.\n\n"
    "It also compares each layer's saliency with the last layer's, and says which share of the visual tokens "
    "lies above the layer's mean, benchmark by benchmark.",
    options=(*MODEL, "retentions", "questions", "frames", "fps", "fidelity_inputs"),
    runner="trio_profile.kinds.theory.run:run",
    document="trio_profile.kinds.theory.document:TheoryDocument",
    report="trio_profile.kinds.theory.report:report",
    conclude="trio_profile.kinds.theory.document:conclude",
    preview="trio_profile.kinds.theory.run:preview",
    file="theory.json",
    rows="layers",
    defaults={"retentions": (0.05, 0.11, 0.33, 0.66), "fidelity_inputs": 30},
    several=("retentions", "questions"),
)
