"""Serve a model, dense or pruned: a small server of OpenAI's chat completions, which needs the extra `serve`.

    request.py      the short typed list of what a request may say
    server.py       the listener: paths, hosts, bodies, and answers in OpenAI's form
    worker.py       the process that answers: its line, its deadline, its limit of memory
    answering.py    how that process answers: pictures, prompt, `generate` inside `prune`

Only `answering.py` imports torch.
"""
