"""NVIDIA's tables of operators, as `Tables`: `aiconfigurator-core`, measured under vLLM, SGLang and TensorRT-LLM."""

import logging
from importlib import import_module
from typing import Any

from trio_profile.cost.prediction import FORMULA, GUESS, MEASURED, Tables, Time
from trio_profile.errors import StudyError
from trio_profile.installation import missing_extra

ENGINES = ("vllm", "sglang", "trtllm")
# The longest sequence of the attention tables, and the most rows of the GEMM tables. Beyond them it extrapolates.
MOST_TOKENS, MOST_ROWS = 16384, 32768
# From the maker's data sheets, without tensor cores.
_FLOAT32_TFLOPS = {
    "a100_sxm": 19.5, "h100_sxm": 67, "h200_sxm": 67, "l40s": 91.6, "b200_sxm": 75, "b300_sxm": 75, "gb200": 80,
    "gb300": 80, "rtx_pro_6000_server": 125,
}  # fmt: skip
# Guesses: the share of the peak that a product without a table reaches, and that attention of a tower does.
_OF_PEAK, _OF_PEAK_IN_ENCODER = 0.5, 0.35
_SDK = "aiconfigurator_core.sdk"


def tables(gpu: str, engine: str | None = None) -> list[Tables]:
    """Return the tables of a GPU: of one engine, or of every engine that has one.

    gpu: such as `h100` or `h100_sxm`.
    Raises StudyError if the extra `predict` is not installed, or if there is no table.
    """
    logging.getLogger("aiconfigurator_core").setLevel(logging.CRITICAL)
    try:
        database = import_module(f"{_SDK}.perf_database")
    except ModuleNotFoundError as error:
        raise StudyError(missing_extra("predict", "predict", error)) from error
    known = {name: engines for name, engines in database.get_supported_databases().items() if name in _FLOAT32_TFLOPS}
    wanted = gpu.casefold().replace("-", "_").replace(" ", "_").removeprefix("nvidia_")
    system = next((name for name in sorted(known) if f"{name}_".startswith(f"{wanted}_")), None)
    if system is None:
        problem = f"GPU {gpu!r} has no table" if gpu else "give --gpu"
        raise StudyError(f"{problem}; there are tables of {', '.join(sorted(known))}")
    engines = [name for name in ENGINES if name in known[system]]
    if engine not in (None, *engines):
        raise StudyError(f"engine {engine!r} has no table of {system}; choose {', '.join(engines)}")
    return [_Nvidia(database, system, name) for name in engines if engine in (None, name)]


class _Nvidia:
    """The table of one GPU and one engine."""

    def __init__(self, database: Any, system: str, engine: str) -> None:
        self._operations, common, self._engine = (
            import_module(f"{_SDK}.{name}") for name in ("operations", "common", "engine")
        )
        self._gemm, self._fmha = common.GEMMQuantMode.bfloat16, common.FMHAQuantMode.bfloat16
        self._cache = common.KVCacheQuantMode.bfloat16
        self._database = database.get_database_view(system, engine, "current", database_mode="HYBRID")
        self._handle = self._engine.EngineHandle.for_database(self._database)
        spec = self._database.system_spec["gpu"]
        self._bytes_per_ms = spec["mem_bw"] * spec["mem_bw_empirical_scaling_factor"] / 1e3
        self._start_ms = spec["mem_empirical_constant_latency"] * 1e3
        self._peak = {2: spec["bfloat16_tc_flops"] / 1e3 * _OF_PEAK, 4: _FLOAT32_TFLOPS[system] * 1e9}
        self.gpu, self.engine = system, f"{engine} {self._database.version}"
        self.memory_bytes, self.most_tokens, self.most_rows = spec["mem_capacity"], MOST_TOKENS, MOST_ROWS

    def gemm(self, rows: int, out: int, into: int) -> Time:
        return self._time(self._operations.GEMM("gemm", 1, out, into, self._gemm), rows=rows)

    def attention(self, tokens: int, heads: int, kv_heads: int, head_size: int, batch: int) -> Time:
        sizes = "attention", 1, heads, kv_heads, self._cache, self._fmha
        return self._time(self._operations.ContextAttention(*sizes, head_size=head_size), tokens, batch)

    def encoder(self, tokens: int, heads: int, head_size: int, batch: int) -> Time:
        sizes, options = ("encoder", 1, heads, head_size), {"fmha_quant_mode": self._fmha, "partial_rotary_factor": 0.0}
        try:
            return self._time(self._operations.EncoderAttention(*sizes, **options), tokens, batch)
        except Exception:  # the A100 has no such table
            flops = 4 * batch * tokens**2 * heads * head_size
            return self.products(flops, 2) * _OF_PEAK / _OF_PEAK_IN_ENCODER

    def bytes(self, count: float) -> Time:
        return FORMULA * (count / self._bytes_per_ms + self._start_ms if count else 0)

    def products(self, flops: float, itemsize: int) -> Time:
        return GUESS * flops / self._peak[itemsize]

    def exchange(self, values: int, gpus: int) -> Time:
        return self._time(self._operations.CustomAllReduce("exchange", 1, values, gpus))

    def _time(self, operator: Any, tokens: int = 1, batch: int = 1, rows: int | None = None) -> Time:
        self._engine._resolve_attention_lane_orders([operator], self._database, None)
        listed = self._engine.build_ops_json([operator])
        [answer] = self._handle.evaluate_ops_json(listed, is_context=True, batch_size=batch, s=tokens, x=rows)
        _, ms, _, source = answer
        return ms * (MEASURED if source == "silicon" else FORMULA)
