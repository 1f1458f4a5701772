"""A clock and a GPU whose readings are scripted, and a small table of operators."""

from trio_profile.cost.prediction import FORMULA, GUESS, MEASURED


class FakeClock:
    """Each mark is 10 ms after the last, or as much as a script says."""

    def __init__(self, steps=()):
        self.now = 0.0
        self.steps = list(steps)

    def mark(self) -> float:
        self.now += self.steps.pop(0) if self.steps else 10.0
        return self.now

    def elapsed_ms(self, start: float, end: float) -> float:
        return end - start

    def prepare(self) -> None:
        pass


class FakeGpu:
    """A GPU whose clock, in MHz, and energy counter, in joules, are scripted; the last entries stay."""

    def __init__(self, clocks: list[int], watts: float = 100.0, strangers: tuple[int, ...] = ()):
        self.clocks, self.watts, self.seconds, self.strangers = clocks, watts, 0.0, strangers
        self.read: list[int] = []
        self.why: tuple[str, ...] = ("temperature",)

    def clock_mhz(self) -> int:
        self.read.append(self.clocks.pop(0) if len(self.clocks) > 1 else self.clocks[0])
        return self.read[-1]

    @property
    def full_clock_mhz(self) -> int:
        return 2000

    def energy_j(self) -> float:
        return self.watts * self.seconds

    def slowed_by(self) -> tuple[str, ...]:
        return self.why if min(self.read[-2:]) < 2000 else ()

    def others(self) -> tuple[int, ...]:
        return self.strangers


class FakeTables:
    """A table of operators: a GEMM takes 1 ns for each product, attention and memory 1 ns for each token and byte."""

    gpu, engine, memory_bytes, most_tokens, most_rows = "fake_gpu", "fake 1.0", 16 * 10**9, 4096, 8192

    def gemm(self, rows, out, into):
        return MEASURED * 1e-6 * rows * out * into

    def attention(self, tokens, *_):
        return FORMULA * 1e-6 * tokens

    def encoder(self, tokens, *_):
        return GUESS * 1e-6 * tokens

    bytes, exchange, products = attention, attention, encoder
