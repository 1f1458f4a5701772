from tests.profile.kept import KEPT
from trio_profile.kinds.gate.evidence import of_study
from trio_profile.records.store import Store


def test_a_gate_tells_variants_apart(tmp_path):
    KEPT["ablate"](tmp_path)
    contents = Store(tmp_path).read()
    evidence = of_study(contents, "here").evidence
    assert {"trio at 0.11", "trio (k_pos = 1) at 0.11"} <= set(evidence)
    assert len(evidence) == 1 + sum(m.status == "done" for m in contents.measurements)
