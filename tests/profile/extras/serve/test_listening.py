import pytest

from tests.profile.studying import make
from trio_core import OptionError
from trio_profile.errors import StudyError
from trio_profile.extras.serve import listening
from trio_profile.extras.serve.listening import listen, prepare


def test_a_port_in_use_is_said():
    with listen("127.0.0.1", 0) as first:
        port = first.getsockname()[1]
        with pytest.raises(StudyError, match=rf"port {port} of 127\.0\.0\.1 is in use: choose another --port; 0 takes"):
            listen("127.0.0.1", port)


@pytest.mark.parametrize("host", ["192.0.2.1", "no.such.host.invalid", "é" * 200, "\0"])
def test_a_host_that_is_not_this_machine_is_said(host):
    with pytest.raises(StudyError, match=r"choose another --host or --port"):
        listen(host, 0)


def test_what_cannot_be_served_is_said_at_the_start():
    for fields, says in (
        ({"model": "llava-1.5-7b"}, "model 'llava-1.5-7b' has random weights; serve pocket or a checkpoint"),
        ({"model": "pocket-deep"}, "model 'pocket-deep' has random weights; serve pocket or a checkpoint"),
        ({"model": "pocket-video"}, "model 'pocket-video' takes clips, and requests have pictures; serve pocket or"),
        ({"model": "nonesuch"}, "unknown model 'nonesuch'"),
        ({"retentions": (0.02,)}, "model 'pocket' cannot be served: .*0.02.*lowest possible is 0.0642"),
        ({"options": {"positions": "sideways"}}, "positions"),
    ):
        with pytest.raises((StudyError, OptionError), match=says):
            prepare(make(**{"model": "pocket", "device": "cpu", "retentions": (0.222,), **fields}))


@pytest.mark.parametrize("given", [True, False], ids=["the processor refuses", "the processor drops it"])
def test_a_template_that_leaves_out_the_picture_is_refused(monkeypatch, pruned, given):
    template = "{% for message in messages %}user : {{ message['content'][-1]['text'] }}{% endfor %}"
    monkeypatch.setattr(pruned.processor, "chat_template", template)
    monkeypatch.setattr(listening, "load", lambda _study: pruned)
    if not given:
        nothing = [[]], [[]], [], {}
        monkeypatch.setattr(pruned.processor, "_multimodal_inputs_from_conversations", lambda *_: nothing)
    says = "cannot be served: The total number of <image> tokens" if given else "leaves out the picture of a question"
    with pytest.raises(StudyError, match=says):
        prepare(make(model="pocket", device="cpu", retentions=(0.222,)))
