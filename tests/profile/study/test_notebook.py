"""What a notebook shows of each document."""

import pytest

from tests.profile.documents import swept
from tests.profile.examples import environment, study
from tests.profile.kept import KEPT
from trio_profile.records.documents import Document, StudyDocument
from trio_profile.study import running


@pytest.mark.parametrize("kind", KEPT)
def test_a_document_of_every_kind_has_a_small_piece_of_html(kind, tmp_path):
    KEPT[kind](tmp_path)
    html = running.read(tmp_path).document._repr_html_()
    assert html.startswith('<div class="trio-profile">') and "<script" not in html
    assert "<table>" in html or "<li>" in html
    assert len(html) < 100_000


def test_a_toy_model_has_its_banner():
    document = swept().model_copy(update={"study": study(model="pocket", retentions=(0.11, 0.55))})
    assert "pocket is a toy model" in (document._repr_html_() or "")


def test_a_document_without_a_report_has_none():
    assert Document()._repr_html_() is None
    assert StudyDocument(environment=environment(), study=study())._repr_html_() is None
