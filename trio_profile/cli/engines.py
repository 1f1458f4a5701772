"""The engines besides this process: workers that are started by hand, and a Ray cluster."""

from typing import TYPE_CHECKING, Any

import typer

from trio_profile.cli import overview, worker_options

if TYPE_CHECKING:
    from trio_profile.records.schema import Study
    from trio_profile.studies.running import Finished


def require_ray(given: dict[str, Any]) -> None:
    """Raise BadParameter if an option of `--engine ray` is given without it. given: the options, by name."""
    for name, (_, default) in worker_options.OF_RAY.items():
        if given.get(name, default) != default and given["engine"] != "ray":
            raise typer.BadParameter(f"--{name.replace('_', '-')} needs --engine ray")


def write_for_workers(study: "Study", given: dict[str, Any]) -> None:
    """Write a study for workers, and say how to start them. given: the options, by name.

    Raises BadParameter if it is to be logged now.
    """
    from trio_profile import units
    from trio_profile.studies import shared

    out = given["out"]
    if form := next((form for form in ("json", "markdown", "latex") if given[form]), None):
        raise typer.BadParameter(
            f"--{form}: nothing is measured yet; `trio-profile show {out} --{form}` prints it later"
        )
    if given["log"] is not None:
        raise typer.BadParameter(
            f"--log {given['log']}: nothing is measured yet; log it later with "
            f"`trio-profile report {out} --log {given['log']}`"
        )
    runs = shared.prepare(study, out, resume=given["resume"])
    held = f"{units.number_of(runs, 'run')} on {study.device}"
    print(f"{out} holds a study of {held}. Any number of workers may measure it:")
    print(f"    trio-profile work {out}")


def run_on_ray(study: "Study", given: dict[str, Any]) -> "Finished":
    """Measure a study on a Ray cluster, and write its report. given: the options, by name.

    Raises the errors of `ray_engine.run`.
    """
    from trio_profile.studies import ray_engine, running

    need = ray_engine.Need(
        cores=given["cores"],
        gpus=int(study.device.startswith("cuda")),
        memory_bytes=int((given["memory"] or 0) * 2**30),
        workers=given["workers"],
    )
    out, address, terms = given["out"], given["address"] or "auto", worker_options.terms(given)
    with overview.live() as show:
        ray_engine.run(study, out, need, show, address=address, terms=terms, resume=given["resume"])
    return running.write_report_again(out)
