"""The kinds `sweep`, `compare` and `ablate`."""

from trio_profile.study.kind import CELLS, INPUT, MODEL, Kind

KINDS = (
    Kind(
        name="sweep",
        group="Measure",
        place=1,
        summary="Sweep retentions: speed-up, work, cache and break-even. The main job.\n\n"
        "All retentions and the dense model are timed in turn, in random rounds. The same command goes on where it "
        "was.",
        options=(*MODEL, "methods", "retentions", "gamma", *INPUT, *CELLS),
        runner="trio_profile.kinds.grid.run:run",
        document="trio_profile.kinds.grid.sweep:summarise",
        report="trio_profile.kinds.grid.sweep:report",
        rows="trio_profile.kinds.grid.rows:cell_rows",
        pairs="trio_profile.kinds.grid.rows:pair_rows",
        paper_tables="trio_profile.kinds.grid.page:all_cells",
        out="runs/sweep",
    ),
    Kind(
        name="compare",
        group="Measure",
        place=2,
        summary="Compare methods at the same retentions: time, work, cache, and agreement with the dense model.\n\n"
        "The controls `random` and `downsample` are always included. A method that cannot run is listed with its "
        "reason.",
        options=(*MODEL, "methods", "retentions", *INPUT, *CELLS),
        runner="trio_profile.kinds.grid.run:run",
        document="trio_profile.kinds.grid.compare:compare",
        report="trio_profile.kinds.grid.compare:report",
        rows="trio_profile.kinds.grid.rows:cell_rows",
        pairs="trio_profile.kinds.grid.rows:pair_rows",
        paper_tables="trio_profile.kinds.grid.page:all_cells",
        defaults={"methods": (), "retentions": (0.333,)},
        empty_words={"methods": "all methods"},
        prepare="trio_profile.kinds.grid.comparisons:prepare_compare",
        keep_refusals=True,
        out="runs/compare",
    ),
    Kind(
        name="ablate",
        group="Paper",
        place=1,
        summary="Change one option of TRIO at a time, and compare each variant with the default.\n\n"
        "A variant that cannot run is listed with its reason. Finished cells are not measured again. With --tasks "
        "or --suite it is an evaluation: lmms-eval scores the answers of each variant.",
        options=(
            *(*MODEL, "ablations", "retentions", *INPUT, *CELLS),
            *("suite", "tasks", "task_path", "limit"),
        ),
        runner="trio_profile.kinds.grid.run:run",
        document="trio_profile.kinds.grid.ablate:ablate",
        report="trio_profile.kinds.grid.ablate:report",
        rows="trio_profile.kinds.grid.rows:cell_rows",
        pairs="trio_profile.kinds.grid.rows:pair_rows",
        paper_tables="trio_profile.kinds.grid.page:all_cells",
        defaults={"retentions": (0.111,)},
        prepare="trio_profile.kinds.grid.comparisons:prepare_ablate",
        instead="trio_profile.kinds.evaluation.ablations:on_tasks",
        keep_refusals=True,
        several=("retentions",),
        out="runs/ablate",
    ),
)
