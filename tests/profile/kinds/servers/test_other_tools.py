"""Exports of AIPerf and GuideLLM are read, and their ratios have no interval."""

import json
from pathlib import Path

import pytest

from tests.profile.command import complaint, document
from trio_profile.cli import run
from trio_profile.kinds.servers.other_tools import read_runs
from trio_profile.kinds.servers.study import Load

EXPORTS = Path(__file__).parent / "exports"
PAIRS = {
    "AIPerf 0.13.0": (EXPORTS / "aiperf-dense", EXPORTS / "aiperf-pruned"),
    "GuideLLM 0.8.1": (EXPORTS / "guidellm-dense.json", EXPORTS / "guidellm-pruned.json"),
}


@pytest.mark.parametrize("tool", PAIRS)
def test_the_ratios_of_two_exports(tool, capsys):
    (pair,) = document(capsys, "show", *PAIRS[tool])["pairs"]
    dense, pruned = pair["dense"], pair["pruned"]
    assert (dense["tool"], dense["requests"], dense["errors"]) == (tool, 12, 0)
    assert dense["load"] == {"loop": "closed", "value": 2}
    assert (dense["prompt_tokens"], pruned["prompt_tokens"]) == (598, 150)  # as the server reports them
    assert dense["end"] < pruned["start"]
    gains = pair["gains"]
    assert gains["throughput"] == pruned["values"]["throughput"] / dense["values"]["throughput"] > 1
    assert gains["ttft_p50_ms"] == pytest.approx(dense["values"]["ttft_p50_ms"] / pruned["values"]["ttft_p50_ms"])
    assert dense["values"]["ttft_p50_ms"] <= dense["values"]["total_ms"] < 5000  # milliseconds, from both


def test_the_page_says_why_there_is_no_interval_and_what_measures_one(capsys):
    assert run(["show", *map(str, PAIRS["GuideLLM 0.8.1"])]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "Each server was measured once under each load, the pruned one 54 s after the dense one." in printed
    assert "endpoints --dense http://127.0.0.1:8501 --pruned http://127.0.0.1:8502 --concurrency 2" in printed


@pytest.mark.parametrize(
    ("strategy", "load"),
    [
        ({"type_": "constant", "rate": 2.5}, Load(loop="open", value=2.5)),
        ({"type_": "synchronous"}, Load(loop="closed", value=1)),
        ({"type_": "throughput", "max_concurrency": 64}, None),
    ],
)
def test_the_load_of_a_benchmark(strategy, load, tmp_path):
    content = json.loads(PAIRS["GuideLLM 0.8.1"][0].read_text())
    content["benchmarks"][0]["config"]["strategy"] = strategy
    (tmp_path / "report.json").write_text(json.dumps(content))
    assert [one.load for one in read_runs(tmp_path / "report.json")] == [load]


def test_what_is_no_pair_is_refused_in_one_line(tmp_path, capsys):
    (dense, pruned), (other, _) = PAIRS.values()
    (tmp_path / "wrong.json").write_text('{"aiperf_version": "0.13.0"}')
    twice = json.loads(other.read_text())
    twice["benchmarks"][0]["config"]["strategy"] = {"type_": "throughput"}
    twice["benchmarks"] *= 2
    (tmp_path / "twice.json").write_text(json.dumps(twice))
    for first, second, says in (
        (dense, other, "have no load in common: AIPerf 0.13.0 at concurrency 2 / GuideLLM 0.8.1 at concurrency 2"),
        (dense, tmp_path / "missing.json", "missing.json cannot be read: No such file or directory"),
        (tmp_path / "twice.json", tmp_path / "twice.json", "has two runs of GuideLLM 0.8.1 at another load; keep one"),
        (tmp_path / "wrong.json", pruned, "is no export of AIPerf 0.13 or GuideLLM 0.8 (KeyError: 'input_config')"),
    ):
        assert says in complaint(capsys, "show", first, second)
    assert "leave them out beside PRUNED" in complaint(capsys, "show", dense, pruned, "--doubts")
