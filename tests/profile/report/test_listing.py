"""Tables of what there is, from plain rows."""

import subprocess
import sys

from tests.profile.examples import environment
from tests.profile.reading import rows, sentences, table, terms, too_wide
from trio_profile.records.facts import MethodFacts, ModelFacts
from trio_profile.report import listing
from trio_profile.report.blocks import Table


def test_methods_say_what_they_do_where_they_act_and_what_they_cost():
    paper, rule = ({"arxiv": arxiv, "repository": "", "title": ""} for arxiv in ("2602.04657", ""))
    report = listing.methods(
        [
            MethodFacts(
                "trio",
                "Keep some.",
                "decoder layers",
                "both",
                ("layers", "readout"),
                9,
                0.5143,
                {},
                paper,
                "ours",
                None,
            ),
            MethodFacts(
                "grid",
                "Keep others.",
                "before the decoder, then decoder layers",
                "videos",
                (),
                0,
                0.0,
                {},
                rule,
                "",
                None,
            ),
        ]
    )
    assert rows(table(report, "What each method does")) == [["trio", "Keep some. (ours)"], ["grid", "Keep others."]]
    facts = rows(table(report, "Where it acts and on what, what it needs, what its selections cost"))
    assert facts == [
        ["trio", "decoder", "both", "layers, readout", "51.4 %", "arXiv 2602.04657"],
        ["grid", "both", "videos", "nothing", "0.0 %", "–"],
    ]
    assert "share of one dense decoder layer" in sentences(report)[0]
    assert set(terms(report)) == {"layers", "readout", "encoder", "pixels", "embeddings", "norm"}
    assert not list(too_wide(report))


def test_models_have_their_sizes():
    report = listing.models([ModelFacts("llava-1.5-7b", "Llava", 7_063_427_072, 32, 576, False, "LLaVA-1.5-7B")])
    (found,) = [block for block in report.pages[0].blocks if isinstance(block, Table)]
    assert rows(found) == [["llava-1.5-7b", "7.063 G", "576", "LLaVA-1.5-7B"]]
    assert report.pages[0].title == "1 built-in model"


def test_a_self_check_says_no_loudly_and_leaves_open_what_could_not_be_asked():
    names = ("family", "class", "attention", "identical", "difference", "same_kept", "generates")
    checks = (
        ("LLaVA-1.5", "LlavaForConditionalGeneration", "eager", True, 2.886e-07, True, True),
        ("Qwen3-VL", "Qwen3VLForConditionalGeneration", "sdpa", True, None, False, None),
    )
    report = listing.checks([dict(zip(names, check, strict=True)) for check in checks])
    found = table(report, "Pruning on a small model of each family's class, random weights")
    assert rows(found) == [
        ["LLaVA-1.5", "Llava", "eager", "yes", "2.9 × 10⁻⁷", "yes", "yes"],
        ["Qwen3-VL", "Qwen3VL", "sdpa", "yes", "–", "NO", "–"],
    ]
    assert found.rows[1][5].tone == "loss"
    assert not list(too_wide(report))


def test_the_environment_has_sizes_and_names_that_people_read():
    said = terms(listing.environment(environment(), {}))
    assert said["memory"] == "128 GiB" and said["device memory"] == "139 GiB"
    assert said["processor"] == "Intel Xeon Platinum 8592+, 16 threads" and said["python"] == "3.11.9"
    assert "attention kernels" not in said  # not known, so not listed
    on_cpu = environment(device_name="cpu", cuda=None, driver=None, device_memory_bytes=None)
    assert "CUDA, driver" not in terms(listing.environment(on_cpu, {}))


def test_the_tables_need_no_torch():
    code = "import sys, trio_profile.report.listing; assert not {'torch', 'numpy'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
