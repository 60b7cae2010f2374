"""A completion on the terminal, token by token, so that the first start shows what this is."""

import http.client
import json

from daemon import url_host
from options import DEMO_MODEL

DEMO_PROMPT = "It is a truth universally acknowledged, that"
OTHER_PROMPT = "Once upon a time,"
MAX_TOKENS = 64
TIMEOUT_S = 60
MAX_LINES = 10_000


def can_sample(options, port):
    """A model without a tokenizer takes token ids only: there is nothing to show. A GGUF file may have one inside."""
    if options.tokenizer is not None or not options.model.is_file():
        return options.tokenizer is not None or (options.model / "tokenizer.json").is_file()
    connection = _connect(options, port)
    try:
        connection.request("POST", "/tokenize", json.dumps({"prompt": OTHER_PROMPT}), _headers(options))
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def _connect(options, port):
    return http.client.HTTPConnection(url_host(options.host).strip("[]"), port, timeout=TIMEOUT_S)


def _headers(options):
    return {"Content-Type": "application/json", **key_header(options)}


def key_header(options):
    """A header with the first key of --api-key-file, where there is one."""
    if options.api_key_file is None:
        return {}
    lines = options.api_key_file.read_text(encoding="utf-8").splitlines()
    keys = (line.strip() for line in lines if line.strip() and not line.lstrip().startswith("#"))
    return next(({"Authorization": "Bearer " + key} for key in keys), {})


def events(response):
    """The data of each server-sent event up to [DONE]."""
    for _ in range(MAX_LINES):
        line = response.readline()
        if not line:
            raise OSError("the stream ended before [DONE]")
        text = line.decode().strip()
        if text == "data: [DONE]":
            return
        if text.startswith("data: "):
            yield json.loads(text[len("data: ") :])


def show(options, port, write):
    """Streams a completion to write(). Returns an error in words, or None."""
    prompt = DEMO_PROMPT if options.model == DEMO_MODEL else OTHER_PROMPT
    headers = _headers(options)
    connection = _connect(options, port)
    try:
        connection.request("GET", "/v1/models", headers=headers)
        models = json.loads(connection.getresponse().read())
        body = {
            "model": models["data"][0]["id"],
            "prompt": prompt,
            "max_tokens": MAX_TOKENS,
            "temperature": 0,
            "stream": True,
        }
        connection.request("POST", "/v1/completions", json.dumps(body), headers)
        response = connection.getresponse()
        if response.status != 200:
            return f"HTTP {response.status}: {response.read(2000).decode(errors='replace')}"
        write(f"\n  {prompt}")
        for event in events(response):
            if "error" in event:
                return event["error"].get("message", "error")
            for choice in event.get("choices", []):
                write(choice.get("text", "").replace("\n", "\n  "))
        write("\n\n")
        return None
    except (OSError, http.client.HTTPException, ValueError, KeyError, IndexError) as error:
        return f"{type(error).__name__}: {error}"
    finally:
        connection.close()
