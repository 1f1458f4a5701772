"""No request makes the server open a file or a connection, take much memory, or keep it from saying that it is well."""

import base64
import json
from pathlib import Path

import httpx2
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

from tests.profile.extras.serve.audited import serving_audited
from tests.profile.extras.serve.conftest import STUDY
from tests.profile.extras.serve.hostile import attack, hostile
from tests.profile.extras.serve.serving import data_url
from trio_profile.extras.serve.request import Body
from trio_profile.extras.serve.worker import MEMORY_BYTES
from trio_profile.inputs.questions import FORMATS

GREY = Image.new("RGB", (40, 30), "grey")
PICTURES = [data_url(GREY, form) for form in FORMATS]
ADDRESSES = ["http://127.0.0.1:9/a.png", "file:///etc/passwd", "/etc/passwd", "data:text/html;base64,AAAA"]
TEXTS = [
    "which digit ?",
    "<image>",
    "<|image_pad|>",
    "<video>",
    "{{ 7 * 7 }}",
    "/etc/passwd",
    "\0",
    "é😀",
    " ",
    "red " * 400,
]


@pytest.fixture(scope="module")
def server():
    with serving_audited(STUDY) as found:
        yield found


# --- fuzz ------------------------------------------------------------------------------------------------------------

texts = st.sampled_from(TEXTS) | st.text(max_size=20)
broken = st.binary(max_size=200).map(lambda data: f"data:image/png;base64,{base64.b64encode(data).decode()}")
addresses = st.sampled_from(PICTURES) | st.sampled_from(PICTURES) | broken | st.sampled_from(ADDRESSES)
parts = st.lists(
    st.fixed_dictionaries({"type": st.just("text"), "text": texts})
    | st.fixed_dictionaries({"type": st.just("image_url"), "image_url": addresses.map(lambda url: {"url": url})}),
    max_size=3,
)
messages = st.lists(
    st.fixed_dictionaries(
        {"role": st.sampled_from(["user", "user", "system", "developer", "assistant"]), "content": texts | parts},
        optional={"name": texts, "refusal": st.none()},
    ),
    min_size=1,
    max_size=3,
)
lengths = st.integers(1, 4) | st.sampled_from([1, 2**62])
flags = st.booleans() | st.none()
FIELDS = {
    "model": st.sampled_from(["pocket", None]),
    "stream": flags,
    "stream_options": st.fixed_dictionaries({}, optional={"include_usage": flags, "continuous_usage_stats": flags}),
    "max_tokens": lengths | st.none(),
    "max_completion_tokens": lengths,
    "temperature": st.floats(0, 2) | st.none(),
    "top_p": st.floats(0, 1, exclude_min=True) | st.none(),
    "seed": st.integers(-(2**63), 2**63 - 1),
    "ignore_eos": flags,
    "user": texts,
    "metadata": st.dictionaries(texts, texts, max_size=2),
}
neutral = {name: st.sampled_from([None, *values]) for name, values in Body.neutral.items()}
bodies = st.fixed_dictionaries({"messages": messages}, optional=FIELDS | neutral)


@pytest.mark.slow
@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(body=bodies)
def test_no_accepted_field_opens_a_file_or_a_connection(server, body):
    assert set(FIELDS) | {"messages"} == set(Body.model_fields)
    found = httpx2.post(f"{server.url}/chat/completions", content=json.dumps(body), timeout=600)
    assert found.status_code in (200, 400), found.text
    assert server.seen() == []


# --- hostile requests ------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the peak of memory is read as Linux has it")
def test_hostile_requests_take_little_memory_and_leave_the_listener_answering(server):
    found = attack(server, 2 * len(hostile()))
    listener, worker = (peak - before for peak, before in zip(found.peaks, found.before, strict=True))
    assert not found.events and found.healthy
    assert listener < 600e6 and worker < MEMORY_BYTES
    assert {200, 400, 413} <= set(found.statuses) <= {200, 400, 413, 503}
