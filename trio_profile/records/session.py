"""A session: one opening of a study by one process, on one machine."""

from typing import Annotated, Any, Literal

from pydantic import AwareDatetime, Field

from trio_profile.records.record import Record, ZeroOrMore


class Environment(Record):
    """The machine and the software of a session. One store holds measurements of one `identity`.

    hostname: name of the machine.
    system: operating system.
    python, torch, transformers, fvcore: versions.
    device_name: the GPU's name, or the CPU's.
    cpu, cpu_threads: the CPU's name, and the number of threads that torch uses; 0 if no model ran.
    memory_bytes: main memory.
    cuda, driver: versions; None without CUDA.
    device_memory_bytes: the GPU's memory; None without CUDA.
    wait_policy: what torch's threads do while they wait: `brief` (they spin for a moment, then sleep), `passive` (they
        sleep at once), `active` (they spin), or `one thread` (none waits).
    allocator: what the host's malloc does with freed memory: `keeps memory`, `returns memory`, `system`, or the name of
        another allocator.
    sdpa: on CUDA, the kernels of `scaled_dot_product_attention` in torch's order of preference.
    commit: commit of this repository; None outside a repository.
    """

    hostname: str
    system: str
    python: str
    torch: str
    transformers: str
    fvcore: str
    device_name: str
    cpu: str
    cpu_threads: ZeroOrMore
    memory_bytes: ZeroOrMore | None = None
    cuda: str | None = None
    driver: str | None = None
    device_memory_bytes: ZeroOrMore | None = None
    wait_policy: str = ""
    allocator: str = ""
    sdpa: str | None = None
    commit: str | None = None

    @property
    def identity(self) -> dict[str, Any]:
        """Fields that change what a time means."""
        return self.model_dump(exclude={"hostname", "commit", "memory_bytes", "device_memory_bytes"})


class FileDigest(Record):
    """What identifies the content of a file.

    bytes: its size.
    sha256: the first sixteen hexadecimal digits of a SHA-256: of the whole file up to 16 MiB, and of 256 blocks of a
        larger one.
    """

    bytes: ZeroOrMore
    sha256: str


class Session(Record):
    """One opening of a study by one process. Every measurement names its session.

    id: a random name.
    started: when the study was opened.
    command: the command line that the user gave.
    pid: number of the process.
    environment: the machine and the software, with the host's name and the commit.
    load_seconds: time that the process needed to import the libraries and to load the model.
    busy: share of all CPUs' time that other processes used at the start, 0 to 1; None if the system does not say it.
    engine: the program that started this process on a cluster, such as `ray 2.60.0`; empty if there was none.
    engine_cores: how many cores the engine's own processes kept busy while the model loaded; None without an engine.
    version: version of trio-profile.
    inputs: the digests of the files that were measured, by name: `model/config.json`, `image`, `questions`.
    """

    record: Literal["session"] = "session"
    id: str
    started: AwareDatetime | None = None
    command: str = ""
    pid: ZeroOrMore = 0
    environment: Environment
    load_seconds: Annotated[float, Field(ge=0)] = 0.0
    busy: Annotated[float, Field(ge=0)] | None = None
    engine: str = ""
    engine_cores: Annotated[float, Field(ge=0)] | None = None
    version: str = ""
    inputs: dict[str, FileDigest] = Field(default_factory=dict)
