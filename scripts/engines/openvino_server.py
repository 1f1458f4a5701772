"""Serve a model of OpenVINO GenAI by the chat-completions protocol, one request at a time.

    python openvino_server.py DIR --port 8300

A request may have `pruning_ratio`, the percentage of visual tokens that CDPruner removes. The prompt tokens of an
answer are those that the pipeline reports.
"""

import argparse
import base64
import io
import json
import queue
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import openvino as ov
import openvino_genai as genai
import uvicorn
from fastapi import FastAPI
from fastapi.responses import JSONResponse, StreamingResponse
from PIL import Image

KNOWN = {"model", "messages", "max_tokens", "temperature", "stream", "stream_options", "pruning_ratio", "ignore_eos"}


def read(messages: list[dict[str, Any]]) -> tuple[str, list[ov.Tensor]]:
    """The text of the last message, and its pictures."""
    texts, pictures = [], []
    content = messages[-1]["content"]
    for part in [{"type": "text", "text": content}] if isinstance(content, str) else content:
        if part["type"] == "text":
            texts.append(part["text"])
        else:
            data = base64.b64decode(part["image_url"]["url"].partition(",")[2])
            pixels = np.asarray(Image.open(io.BytesIO(data)).convert("RGB"), dtype=np.uint8)
            pictures.append(ov.Tensor(np.ascontiguousarray(pixels[None])))
    return "".join(texts), pictures


def application(directory: str, name: str) -> FastAPI:
    """The server."""
    pipeline, lock, app = genai.VLMPipeline(directory, "CPU"), threading.Lock(), FastAPI()

    def answer(asked: dict[str, Any], pieces: "queue.SimpleQueue[str | dict[str, Any]]") -> None:
        try:
            pieces.put({"usage": generate(asked, pieces)})
        except Exception as error:  # of the request or of the engine
            pieces.put({"error": {"message": f"{type(error).__name__}: {error}"}})

    def generate(asked: dict[str, Any], pieces: "queue.SimpleQueue[str | dict[str, Any]]") -> dict[str, int]:
        text, pictures = read(asked["messages"])
        config = genai.GenerationConfig()
        config.max_new_tokens = asked.get("max_tokens", 16)
        config.do_sample = False
        config.ignore_eos = bool(asked.get("ignore_eos"))
        if "pruning_ratio" in asked:
            config.pruning_ratio = int(asked["pruning_ratio"])

        def say(piece: str) -> genai.StreamingStatus:
            pieces.put(piece)
            return genai.StreamingStatus.RUNNING

        with lock:
            made = pipeline.generate(text, images=pictures, generation_config=config, streamer=say)
        seen = made.perf_metrics
        prompt, completion = seen.get_num_input_tokens(), seen.get_num_generated_tokens()
        return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}

    def stream(asked: dict[str, Any]) -> Iterator[str]:
        pieces: queue.SimpleQueue[str | dict[str, Any]] = queue.SimpleQueue()
        threading.Thread(target=answer, args=(asked, pieces), daemon=True).start()
        head = {"id": "0", "object": "chat.completion.chunk", "model": name, "created": 0}
        while isinstance(piece := pieces.get(), str):
            choice = {"index": 0, "delta": {"content": piece}, "finish_reason": None}
            yield f"data: {json.dumps({**head, 'choices': [choice]})}\n\n"
        if "usage" in piece:
            is_longest = piece["usage"]["completion_tokens"] >= asked.get("max_tokens", 16)
            end = {"index": 0, "delta": {}, "finish_reason": "length" if is_longest else "stop"}
            yield f"data: {json.dumps({**head, 'choices': [end]})}\n\n"
        yield f"data: {json.dumps({**head, 'choices': [], **piece})}\n\n"
        yield "data: [DONE]\n\n"

    @app.get("/v1/models")
    def models() -> dict[str, Any]:
        return {"object": "list", "data": [{"id": name, "object": "model", "owned_by": "openvino-genai"}]}

    @app.post("/v1/chat/completions")
    def complete(asked: dict[str, Any]) -> Any:
        if unknown := sorted(asked.keys() - KNOWN):
            return JSONResponse({"error": {"message": f"this server does not know {unknown[0]!r}"}}, 400)
        return StreamingResponse(stream(asked), media_type="text/event-stream")

    return app


def main() -> None:
    """Serve until it is ended."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory")
    parser.add_argument("--port", type=int, default=8300)
    options = parser.parse_args()
    uvicorn.run(application(options.directory, "random-qwen"), host="127.0.0.1", port=options.port, log_level="warning")


if __name__ == "__main__":
    main()
