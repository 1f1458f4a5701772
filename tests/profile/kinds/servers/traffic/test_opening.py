"""Opening the servers of a study: each fault is one line that names the server, the fault and the way out."""

import asyncio

import pytest

from tests.profile.kinds.servers.fake_servers import FakeServer, study
from trio_profile.errors import StudyError
from trio_profile.kinds.servers.requests import ServerFacts
from trio_profile.kinds.servers.study import EndpointStudy
from trio_profile.kinds.servers.traffic.opening import open_arms, try_arm
from trio_profile.kinds.servers.traffic.pictures import Pictures


def opened(asked: EndpointStudy) -> list[ServerFacts]:
    async def main() -> list[ServerFacts]:
        pictures = Pictures(None, None, frames=asked.frames)
        async with open_arms(asked, None) as arms:
            return [await try_arm(arm, pictures.take()) for arm in arms.values()]

    return asyncio.run(main())


def alone(server: FakeServer, **fields: object) -> EndpointStudy:
    """A study of one server that does both arms."""
    return study(dense=server.url, pruned=None, pruned_body='{"ratio": 0.5}', **fields)


def refused(asked: EndpointStudy) -> str:
    with pytest.raises(StudyError) as caught:
        opened(asked)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_each_server_says_its_model_and_the_tokens_of_its_prompts():
    with FakeServer(kept=64) as dense, FakeServer(kept=16) as pruned:
        found = opened(study(dense=dense.url, pruned=pruned.url))
    assert [(one.arm, one.model, one.text_tokens, one.prompt_tokens) for one in found] == [
        ("dense", "fake", 10, 74),
        ("pruned", "fake", 10, 26),
    ]


def test_one_server_with_a_field_is_both_arms():
    with FakeServer(kept=64) as server:
        asked = study(dense=server.url, pruned=None, body='{"top_k": 1}', pruned_body='{"ratio": 0.25}')
        found = opened(asked)
        bodies = [body for body, _ in server.requests]
    assert [one.prompt_tokens for one in found] == [74, 26]
    assert [body.get("ratio") for body in bodies] == [None, None, 0.25, 0.25]
    assert {body["top_k"] for body in bodies} == {1}
    assert bodies[0]["stream_options"] == {"include_usage": True} and bodies[0]["temperature"] == 0
    kinds = [part["type"] for part in bodies[0]["messages"][0]["content"]]
    assert kinds == ["image_url", "text"]  # the picture first, so that no two prompts begin alike


def test_a_server_with_a_fault_is_refused_with_its_name_and_the_way_out():
    for fault, says in {
        "status 401": "HTTP 401: no luck with no key; give its key with --key-variable NAME",
        "status 404": "HTTP 404: no luck with no key; give the base address",
        "status 500": "HTTP 500: no luck with no key; look into its log",
        "json": "it does not stream: it answers with application/json",
        "redirect": "it redirects to http://127.0.0.1:1/elsewhere, which is not followed",
        "blind": "HTTP 400: this model takes no image; serve a model that sees pictures",
        "ignores": "it reports 10 prompt tokens with a picture, 10 without; serve a model that sees pictures",
    }.items():
        with FakeServer(fault=fault) as server:
            said = refused(alone(server))
        assert said.startswith(f"the dense server {server.url}") and says in said


def test_servers_without_a_common_model_are_refused():
    with FakeServer(models=("one",)) as dense, FakeServer(models=("two",)) as pruned:
        assert "'one' (dense) and 'two' (pruned)" in refused(study(dense=dense.url, pruned=pruned.url))
    with FakeServer(models=("one", "two")) as server:
        asked = alone(server, model="three")
        assert refused(asked) == f"the dense server {server.url} has no model 'three'; it lists one, two"
        assert "name one with --model" in refused(asked.model_copy(update={"model": None}))
