import json
import shutil

import pytest

from tests.core.tiny import fast_first
from tests.profile.command import complaint, document
from trio_profile.cli import run


@pytest.mark.parametrize("left", fast_first(["two", "all"], "two"))
def test_models_check_tries_every_family_with_each_attention(left, capsys, monkeypatch):
    from trio_core.models import families

    for name in set(families) - {"LLaVA-1.5", "Qwen3-VL"} if left == "two" else ():
        monkeypatch.delitem(families, name)
    found = document(capsys, "models", "--check")
    assert found["environment"]["device_name"] == "cpu"
    assert {row["family"] for row in found["checks"]} == set(families)
    assert len(found["checks"]) == sum(len(family.toy_attention) for family in families.values())
    for row in found["checks"]:
        assert (row["identical"], row["same_kept"], row["generates"], row["faults"]) == (True, True, True, [])
        assert 0 < row["difference"] < 1e-5


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
    assert "warning: LLaVA-1.5 (eager): saliency by `tail` differs from `autograd` by" in captured.err


def test_models_check_says_that_a_checkpoint_is_ready(saved, capsys):
    assert run(["models", "--check", str(saved("Qwen2.5-VL")), "--device", "cpu"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "ready"


def test_models_check_says_what_a_checkpoint_lacks_and_exits_with_1(saved, capsys, tmp_path):
    directory = shutil.copytree(saved("LLaVA-1.5"), tmp_path / "copy")
    (directory / "model.safetensors").unlink()
    found = document(capsys, "models", "--check", directory, code=1)
    assert (found["ready"], found["steps"][-1]["name"]) == (False, "model")


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (["somewhere"], "`models --check somewhere` tries it"),
        (["--check", "--device", "cpu"], "--device is for `models --check DIR`"),
        (["--check", "pocket", "--device", "tpu9"], "device 'tpu9' is none that can be timed"),
        (["--check", ""], "unknown model ''"),
    ],
)
def test_models_refuses_bad_input_in_one_line(capsys, line, says):
    assert says in complaint(capsys, "models", *line)
