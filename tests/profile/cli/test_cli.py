import json
import subprocess
import sys

import pytest

from trio_core.methods.method import registry
from trio_profile.cli import run


def document(capsys, *arguments: str) -> dict:
    """Run a verb with --json; its one document."""
    assert run([*arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def complaint(capsys, *arguments: str) -> str:
    """Run what must be refused: exit code 2, one line on standard error, nothing on standard output."""
    assert run(list(arguments)) == 2
    captured = capsys.readouterr()
    lines = [line for line in captured.err.splitlines() if line.startswith("trio-profile: error: ")]
    assert len(lines) == 1
    assert "Traceback" not in captured.err
    assert captured.out == ""
    return lines[0]


@pytest.fixture
def sweep_arguments(checkpoint, photograph):
    return [
        *("sweep", "--model", str(checkpoint), "--image", str(photograph), "--prompt", "What is this?"),
        *("--retention", "0.4,0.8", "--new-tokens", "3", "--cell-seconds", "0.05", "--precision", "0.5"),
        *("--device", "cpu"),
    ]


def test_sweep_prints_one_document_and_writes_a_report(sweep_arguments, tmp_path, capsys):
    found = document(capsys, *sweep_arguments, "--method", "trio", "--method", "grid", "--out", str(tmp_path))
    assert found["format"] == "trio-profile"
    assert found["version"] == 1
    assert found["environment"]["device_name"] == "cpu"
    assert found["study"]["prompt"] == "What is this?"
    assert [(c["method"], c["nominal_retention"]) for c in found["cells"]] == [
        *(("trio", 0.4), ("trio", 0.8), ("grid", 0.4), ("grid", 0.8))
    ]
    for cell in found["cells"]:
        for quantity in ("prefill_ms", "prefill_speedup", "total_ms", "total_speedup"):
            low, high = cell[quantity]["ci95"]
            assert low <= cell[quantity]["median"] <= high
            assert cell[quantity]["samples"] >= 6
            assert cell[quantity]["stopped"] in ("converged", "plateau", "budget")
        assert set(cell["retention"]) == {"nominal", "layer_average", "final_layer", "realised"}
        assert all(isinstance(cell[name], int) for name in ("fastv_macs", "counted_macs", "kv_bytes"))
        assert cell["kv_bytes"] == cell["kv_bytes_predicted"]
    assert set(found["break_even"]) == {"prefill_ms", "total_ms", "fastv_macs", "counted_macs", "kv_bytes"}
    assert found["break_even"]["kv_bytes"]["status"] == "always"
    assert "<html" in (tmp_path / "report.html").read_text()
    assert found["report"] == str(tmp_path / "report.html")


def test_sweep_prints_tables_for_people(sweep_arguments, tmp_path, capsys):
    assert run([*sweep_arguments, "--out", str(tmp_path)]) == 0
    captured = capsys.readouterr()
    assert "retention" in captured.out
    assert "report:" in captured.out
    assert "×" in captured.out
    assert run([*sweep_arguments, "--out", str(tmp_path)]) == 0
    assert capsys.readouterr().out == captured.out


def test_report_is_rebuilt_and_says_what_was_dropped(sweep_arguments, tmp_path, capsys):
    before = document(capsys, *sweep_arguments, "--out", str(tmp_path))
    (tmp_path / "report.html").unlink()
    assert document(capsys, "report", str(tmp_path)) == before
    with (tmp_path / "measurements.jsonl").open("ab") as file:
        file.write(b'{"record": "measurem')
    assert run(["report", str(tmp_path)]) == 0
    assert "warning: line 5 dropped" in capsys.readouterr().err


def test_report_needs_no_torch(sweep_arguments, tmp_path, capsys):
    document(capsys, *sweep_arguments, "--out", str(tmp_path))
    code = (
        "import sys; from trio_profile.cli import run; code = run(sys.argv[1:]); "
        "assert not {'torch', 'transformers'} & set(sys.modules), 'torch was imported'; sys.exit(code)"
    )
    done = subprocess.run([sys.executable, "-c", code, "report", str(tmp_path)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_dry_run_prints_cells_and_cost_and_measures_nothing(tmp_path, capsys):
    out = tmp_path / "out"
    found = document(capsys, "sweep", "--dry-run", "--model", "llava-1.5-7b", "--device", "cpu", "--out", str(out))
    assert len(found["cells"]) == 10
    assert found["shape"]["visual_tokens"] == 576
    assert found["cells"][0]["fastv_macs"] > found["cells"][0]["fastv_overhead_macs"] > 0
    assert found["seconds"] == 50
    assert not out.exists()
    assert run(["sweep", "--dry-run", "--device", "cpu", "--out", str(out)]) == 0
    assert "10 cells, 576 visual and 27 text tokens" in capsys.readouterr().out


def test_models_check_tries_every_family_with_each_attention(capsys):
    from trio_core.models import families

    found = document(capsys, "models", "--check")
    assert found["environment"]["device_name"] == "cpu"
    assert {row["family"] for row in found["checks"]} == set(families)
    assert len(found["checks"]) == sum(len(family.toy_attention) for family in families.values())
    for row in found["checks"]:
        assert (row["identical"], row["same_kept"], row["generates"], row["faults"]) == (True, True, True, [])
        assert 0 < row["difference"] < 1e-5
    assert run(["models", "--check"]) == 0
    captured = capsys.readouterr()
    assert "Qwen3-VL" in captured.out
    assert "NO" not in captured.out
    assert captured.err == ""


def test_models_check_says_what_failed_and_exits_with_1(capsys, monkeypatch):
    from trio_core.models.adapter import Adapter, families
    from trio_core.models.llava import Llava

    for name in set(families) - {"LLaVA-1.5"}:
        monkeypatch.delitem(families, name)
    kept = Adapter.finish
    monkeypatch.setattr(Llava, "finish", lambda self, layer, rest, new: kept(self, layer, rest, 2 * new))
    assert run(["models", "--check", "--json"]) == 1
    captured = capsys.readouterr()
    assert json.loads(captured.out)["checks"][0]["generates"] is True
    assert "warning: LLaVA-1.5 (eager): tail saliency differs from autograd's by" in captured.err
    assert run(["models", "--check"]) == 1
    assert "LLaVA-1.5" in capsys.readouterr().out


def test_a_study_file_with_options_before_it(checkpoint, tmp_path, capsys):
    file = tmp_path / "study.toml"
    file.write_text(f'model = "{checkpoint}"\nretentions = [0.5]\nseed = 4\n')
    found = document(capsys, "sweep", "--dry-run", "--study", str(file), "--seed", "5", "--prompt", "Hm?")
    assert found["study"]["seed"] == 5
    assert found["study"]["retentions"] == [0.5]


def test_a_method_of_the_users_own_where_they_stand(sweep_arguments, tmp_path, capsys, monkeypatch):
    (tmp_path / "longest.py").write_text(
        "from dataclasses import dataclass\n"
        "from typing import ClassVar\n"
        "from trio_core import Method, Reference, Selection, top_k\n"
        "@dataclass(frozen=True, kw_only=True)\n"
        "class Longest(Method):\n"
        "    name: ClassVar[str] = 'longest'\n"
        "    reference: ClassVar[Reference] = Reference(title='hidden norm')\n"
        "    def select(self, view):\n"
        "        scores = [view.features(b).norm(dim=-1) for b in range(len(view.pictures))]\n"
        "        kept = tuple(top_k(s, p.budget) for s, p in zip(scores, view.pictures))\n"
        "        return Selection(kept, tuple(scores))\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", sys.path.copy())
    before = dict(registry)
    try:
        found = document(capsys, *sweep_arguments, "--method", "longest:Longest", "--out", str(tmp_path / "out"))
    finally:
        registry.clear()
        registry.update(before)
    assert {(cell["method"], cell["status"]) for cell in found["cells"]} == {("longest:Longest", "done")}


def test_methods_models_and_env(capsys):
    methods = {m["name"]: m for m in document(capsys, "methods")["methods"]}
    assert list(methods) == sorted(methods) and {"fastv", "random", "trio", "visionzip"} <= set(methods)
    assert methods["trio"]["stage"] == "decoder layers" and methods["visionzip"]["stage"] == "encoder output"
    assert methods["visionzip"]["needs"] == ["encoder"] and methods["fastv"]["needs"] == ["layers"]
    models = {m["name"]: m for m in document(capsys, "models")["models"]}
    assert models["llava-1.5-7b"]["parameters"] == 7_063_427_072
    assert document(capsys, "env")["environment"]["transformers"].startswith("5.")
    for verb in ("methods", "models", "env"):
        assert run([verb]) == 0
        assert capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["swep"], "swep"),
        (["sweep", "--bogus"], "--bogus"),
        (["sweep", "--retention", "1.5"], "retentions.0 = 1.5"),
        (["sweep", "--retention", "0"], "retention 0"),
        (["sweep", "--retention", "nan"], "nan"),
        (["sweep", "--retention", "0.02"], "lowest possible is 0.0642"),
        (["sweep", "--retention", "half"], "--retention 'half'"),
        (["sweep", "--layers", "1,40", "--retention", "0.5"], "(1, 40)"),
        (["sweep", "--layers", "10,1", "--retention", "0.5"], "must ascend"),
        (["sweep", "--layers", "0", "--retention", "0.5"], "(0,)"),
        (["sweep", "--model", "nonesuch"], "unknown model 'nonesuch'"),
        (["sweep", "--method", "fastw"], "unknown method 'fastw'"),
        (["sweep", "--method", "no.such:Thing"], "no.such:Thing"),
        (["sweep", "-o", "threshold=2"], "threshold 2"),
        (["sweep", "-o", "k_pos=half"], "k_pos = 'half' of trio: input should be a valid integer"),
        (["sweep", "-o", "probe=back"], "probe = 'back' of trio: input should be 'next' or 'current'"),
        (["sweep", "-o", "colour=1"], "'colour'"),
        (["sweep", "-o", "colour"], "name=value"),
        (["sweep", "--image", "nowhere.png"], "nowhere.png' does not exist"),
        (["sweep", "--image", "pyproject.toml"], "no picture"),
        (["sweep", "--study", "nowhere.toml"], "nowhere.toml does not exist"),
        (["sweep", "--device", "warp"], "device 'warp'"),
        (["sweep", "--attention", "magic"], "attention 'magic'"),
        (["sweep", "--batch", "0"], "batch = 0"),
        (["report", "nowhere"], "nowhere holds no measurements.jsonl"),
        (["audit", "trio-2062"], "claims 'trio-2062' are not built in"),
        (["audit", "nowhere.yaml"], "nowhere.yaml is no file"),
        (["env", "--device", "cuda:7"], "cuda:7"),
    ],
)
def test_bad_input_is_one_line_and_exit_2(arguments, says, tmp_path, capsys):
    where = ["--out", str(tmp_path / "out")] if arguments[0] == "sweep" else []
    assert says in complaint(capsys, *arguments, *where)
    assert not (tmp_path / "out").exists()


def test_another_study_in_the_directory(sweep_arguments, tmp_path, capsys):
    document(capsys, *sweep_arguments, "--out", str(tmp_path))
    assert "seed (0 there, 1 here)" in complaint(capsys, *sweep_arguments, "--seed", "1", "--out", str(tmp_path))


def test_going_on_is_the_default_and_can_be_refused(sweep_arguments, tmp_path, capsys):
    first = document(capsys, *sweep_arguments, "--out", str(tmp_path))
    assert document(capsys, *sweep_arguments, "--resume", "--out", str(tmp_path)) == first
    assert "holds measurements already" in complaint(capsys, *sweep_arguments, "--no-resume", "--out", str(tmp_path))


def test_a_foreign_file_in_the_directory(sweep_arguments, tmp_path, capsys):
    (tmp_path / "measurements.jsonl").write_text("hello\n")
    assert "not JSON" in complaint(capsys, *sweep_arguments, "--out", str(tmp_path))
    assert (tmp_path / "measurements.jsonl").read_text() == "hello\n"


def test_interruption_is_130(sweep_arguments, tmp_path, capsys, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("trio_profile.studies.sweep.run", interrupted)
    assert run([*sweep_arguments, "--out", str(tmp_path)]) == 130
    assert "what was measured is kept" in capsys.readouterr().err


def test_help_imports_no_torch():
    code = (
        "import sys; from trio_profile.cli import run; code = run(['--help']); "
        "heavy = {'torch', 'transformers', 'numpy', 'scipy', 'plotly', 'pydantic'} & set(sys.modules); "
        "assert not heavy, heavy; sys.exit(code)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "sweep" in done.stdout
