from pathlib import Path

import pytest

from tests.profile.auditing import LLAVA
from tests.profile.documents import keep
from tests.profile.examples import environment, measurement, study
from trio_profile.cli import run
from trio_profile.judge.audit.document import AuditDocument, audit
from trio_profile.judge.audit.reader import read


def kept_study(directory: Path, *, methods=("trio",), retentions=(0.1111, 0.5, 0.9), **fields) -> Path:
    cells = [measurement(methods[0], retention, overhead_ms=3.5) for retention in retentions]
    return keep(directory, study(methods, retentions=retentions, **fields), cells).directory


def test_a_study_of_the_same_setting_is_shown_beside_the_claim(tmp_path: Path, capsys):
    directory = kept_study(tmp_path / "study")
    assert run(["audit", "trio-2026", "--measured", str(directory), "--json"]) == 0
    document = AuditDocument.model_validate_json(capsys.readouterr().out)
    assert document.environment == environment() and document.study is not None
    beside = {one.quantity: one.measured for one in document.claims if one.measured is not None}
    assert set(beside) == {"flops_ratio", "kv_ratio", "prefill_speedup", "total_speedup"}
    assert all(LLAVA in one.where for one in document.claims if one.measured is not None)
    speedup, kv = beside["prefill_speedup"], beside["kv_ratio"]
    assert speedup is not None and kv is not None
    assert speedup.ci95[0] < speedup.value < speedup.ci95[1] and speedup.samples == 30
    assert kv.ci95 == (kv.value, kv.value) and kv.value == pytest.approx(5.13, abs=0.02)
    plain = audit(read("trio-2026"))
    assert [one.verdict for one in document.claims] == [one.verdict for one in plain.claims]
    assert run(["audit", "trio-2026", "--measured", str(directory), "--markdown"]) == 0
    shown = capsys.readouterr().out
    assert "Our study on NVIDIA H200 (llava-1.5-7b, bfloat16) saw" in shown
    assert "Our study on NVIDIA H200 (llava-1.5-7b, bfloat16) counted 5.1" in shown


@pytest.mark.parametrize("other", [{"model": "pocket"}, {"methods": ("fastv",)}, {"retentions": (0.15, 0.5, 0.9)}])
def test_a_study_of_another_setting_is_refused(other: dict, tmp_path: Path, capsys):
    directory = kept_study(tmp_path / "study", **other)
    assert run(["audit", "trio-2026", "--measured", str(directory), "--json"]) == 2
    captured = capsys.readouterr()
    assert f"is a study of {other.get('model', 'llava-1.5-7b')} and holds no setting" in captured.err
    assert captured.out == ""
