"""/openapi.json: valid, complete, and true: the official client's fields are in it, and schemathesis finds nothing."""

import json
import os
import pathlib
import subprocess
import sys
import typing

import jsonschema
import openai
import openapi_spec_validator
import pytest
from openai.types import completion_create_params
from openai.types.chat import completion_create_params as chat_create_params

from launch import REPOSITORY, get_json
from rest import Stream, post

HERE = pathlib.Path(__file__).resolve().parent / "openapi"
API = REPOSITORY / "coordinator" / "api"
TEMPLATE = REPOSITORY / "tests" / "golden" / "templates" / "styles" / "chatml.jinja"
KEY = "a-key-of-the-test"
MESSAGES = [{"role": "user", "content": "Who is Mr. Darcy?"}]
OFFICIAL = {"completions": completion_create_params.CompletionCreateParamsNonStreaming,
            "chat_completions": chat_create_params.CompletionCreateParamsNonStreaming}


@pytest.fixture(scope="module")
def chat(clusters):
    return clusters("demo", 1, "--chat-template", TEMPLATE)


@pytest.fixture(scope="module")
def document(chat):
    status, document = get_json(chat.url, "/openapi.json")
    assert status == 200
    return document


@pytest.fixture(scope="module")
def answers(document):
    """Validators of answers by schema, for which a property that no schema has is a fault."""
    sys.path.insert(0, str(HERE))
    try:
        import hooks
    finally:
        sys.path.remove(str(HERE))
    closed = json.loads(json.dumps(document))
    hooks.close_answers(closed)

    def check(name, value):
        schema = {"$ref": f"#/components/schemas/{name}", "components": closed["components"]}
        jsonschema.validate(value, schema, cls=jsonschema.Draft202012Validator)

    return check


def test_it_is_valid(document):
    openapi_spec_validator.validate(document)


def test_it_has_every_endpoint_and_every_field(document):
    endpoints = (API / "endpoints.def").read_text(encoding="utf-8")
    rows = [line.split('"') for line in endpoints.splitlines() if line.startswith("ENDPOINT(")]
    assert len(rows) >= 9
    assert {(row[3], row[1].lower()) for row in rows} == {
        (path, method) for path, item in document["paths"].items() for method in item
    }
    for operation, table in (("completions", "completion_fields.def"), ("chat_completions", "chat_fields.def")):
        names = [name for file in (table, "generation_fields.def") for name in field_names(API / file)]
        assert len(names) == len(set(names)) > 40
        assert set(names) == set(document["components"]["schemas"][f"{operation}_request"]["properties"])


def field_names(table):
    lines = table.read_text(encoding="utf-8").splitlines()
    return [line.split("(")[1].split(",")[0] for line in lines if "(" in line and line[0].isupper()]


@pytest.mark.parametrize("operation", OFFICIAL)
def test_every_field_of_the_official_client_is_known(document, operation):
    known = document["components"]["schemas"][f"{operation}_request"]["properties"]
    theirs = typing.get_type_hints(OFFICIAL[operation])
    assert len(theirs) > 15
    assert set(theirs) <= set(known)


def test_the_official_client_is_accepted_with_all_of_them(chat, document):
    client = openai.OpenAI(base_url=f"{chat.url}/v1", api_key="none", max_retries=0)
    model = client.models.list().data[0].id
    fields: dict[str, typing.Any] = {
        "best_of": 2, "echo": True, "frequency_penalty": 0.5, "logit_bias": {"5": -1}, "logprobs": 2, "max_tokens": 4,
        "n": 2, "presence_penalty": -0.5, "seed": 7, "stop": ["zzz"], "suffix": "", "temperature": 0.5, "top_p": 0.9,
        "user": "somebody",
    }
    answer = client.completions.with_raw_response.create(model=model, prompt="Mr. Darcy", **fields)
    assert answer.headers.get("x-krait-unknown-fields") is None
    assert len(answer.parse().choices) == 2
    chunks = list(client.completions.create(model=model, prompt="Mr. Darcy", stream=True,
                                            stream_options={"include_usage": True, "include_obfuscation": False}))
    assert chunks[-1].usage.completion_tokens > 0
    for name in ("best_of", "echo", "suffix"):
        del fields[name]
    fields |= {"logprobs": True, "top_logprobs": 2, "max_completion_tokens": 3, "modalities": ["text"], "tools": [],
               "tool_choice": "auto", "parallel_tool_calls": True, "response_format": {"type": "text"}, "store": False}
    answer = client.chat.completions.with_raw_response.create(model=model, messages=MESSAGES, **fields)
    assert answer.headers.get("x-krait-unknown-fields") is None
    assert answer.parse().usage.completion_tokens <= 6


def test_what_is_sent_is_what_it_says(chat, answers):
    full = {"prompt": ["Mr. Darcy", [5, 6]], "max_tokens": 3, "logprobs": 2, "echo": True, "return_token_ids": True}
    answers("Completion", post(chat.url, "/v1/completions", full)[2])
    events = Stream(chat.url, **full, stream_options={"include_usage": True}).read_all()
    assert events.pop() == "[DONE]" and len(events) > 3
    for event in events:
        answers("CompletionChunk", event)
    talk = {"messages": MESSAGES, "max_tokens": 3, "logprobs": True, "top_logprobs": 2, "return_token_ids": True}
    answers("ChatCompletion", post(chat.url, "/v1/chat/completions", talk)[2])
    events = Stream(chat.url, path="/v1/chat/completions", **talk, stream_options={"include_usage": True}).read_all()
    assert events.pop() == "[DONE]" and len(events) > 3
    for event in events:
        answers("ChatCompletionChunk", event)
    for path, name in (("/v1/models", "ModelList"), ("/health", "Health"), ("/ready", "Ready"),
                       ("/cluster", "Cluster"), ("/openapi.json", "OpenApi")):
        answers(name, get_json(chat.url, path)[1])
    answers("Tokens", post(chat.url, "/tokenize", {"prompt": "a b", "return_token_strs": True})[2])
    answers("Text", post(chat.url, "/detokenize", {"tokens": [5]})[2])
    answers("Error", post(chat.url, "/detokenize", {"tokens": "a"})[2])
    with pytest.raises(jsonschema.ValidationError):
        answers("Health", {"status": "ok", "more": 1})


@pytest.fixture(scope="module")
def with_key(clusters, tmp_path_factory):
    file = tmp_path_factory.mktemp("keys") / "keys"
    file.write_text(KEY + "\n", encoding="utf-8")
    return clusters("demo", 1, "--api-key-file", str(file), "--chat-template", TEMPLATE)


def test_schemathesis_finds_nothing(with_key, tmp_path):
    examples = 300 if os.environ.get("KRAIT_TEST_LONG") else 12
    done = subprocess.run(
        [
            pathlib.Path(sys.executable).parent / "schemathesis",
            "--config-file",
            HERE / "schemathesis.toml",
            "run",
            f"{with_key.url}/openapi.json",
            "--header",
            f"Authorization: Bearer {KEY}",
            "--max-examples",
            str(examples),
            "--no-color",
        ],
        cwd=tmp_path,
        env=dict(os.environ, SCHEMATHESIS_HOOKS=str(HERE / "hooks.py")),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=1800,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-20_000:] + done.stderr[-5_000:]
    assert get_json(with_key.url, "/ready")[0] == 200
