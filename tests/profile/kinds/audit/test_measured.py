from pathlib import Path

import pytest

from tests.profile.auditing import LLAVA
from tests.profile.documents import keep
from tests.profile.examples import document, environment, measurement, study
from tests.profile.kinds.audit.builtin_audits import audit_of
from trio_profile.cli import run
from trio_profile.inputs.claims.reader import read
from trio_profile.kinds.audit.document import AuditDocument
from trio_profile.kinds.audit.measured import with_measured


def kept_study(directory: Path, **fields) -> Path:
    asked = study(retentions=(0.1111, 0.5, 0.9), **fields)
    return keep(directory, asked, [measurement(retention=at, overhead_ms=3.5) for at in asked.retentions]).directory


def test_a_study_of_the_same_setting_is_shown_beside_the_claim(tmp_path: Path, capsys):
    directory = kept_study(tmp_path / "study")
    assert run(["audit", "trio-2026", "--measured", str(directory), "--json"]) == 0
    found = AuditDocument.model_validate_json(capsys.readouterr().out)
    assert found.environment == environment() and found.study is not None
    beside = {one.quantity: one.measured for one in found.claims if one.measured is not None}
    assert set(beside) == {"flops_ratio", "kv_ratio", "prefill_speedup", "total_speedup"}
    assert all(LLAVA in one.where for one in found.claims if one.measured is not None)
    speedup, kv = beside["prefill_speedup"], beside["kv_ratio"]
    assert speedup is not None and kv is not None
    assert speedup.ci95[0] < speedup.value < speedup.ci95[1] and speedup.samples == 30
    assert kv.ci95 == (kv.value, kv.value) and kv.value == pytest.approx(5.13, abs=0.02)
    plain = audit_of("trio-2026")
    assert [one.verdict for one in found.claims] == [one.verdict for one in plain.claims]


def test_a_study_of_another_setting_is_refused(tmp_path: Path, capsys):
    directory = kept_study(tmp_path / "study", model="pocket")
    assert run(["audit", "trio-2026", "--measured", str(directory), "--json"]) == 2
    captured = capsys.readouterr()
    assert "is a study of pocket and holds no setting" in captured.err and captured.out == ""


@pytest.mark.parametrize(("method", "retention"), [("fastv", 0.1111), ("trio", 0.15)])
def test_a_cell_of_another_setting_measures_no_claim(method: str, retention: float):
    cell = document(study((method,), retentions=(retention,)), [measurement(method, retention)])
    beside = with_measured(audit_of("trio-2026"), read("trio-2026"), cell)
    assert not [one for one in beside.claims if one.measured is not None]
