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

from launch import REPOSITORY, get_json
from rest import Stream, post

HERE = pathlib.Path(__file__).resolve().parent / "openapi"
API = REPOSITORY / "coordinator" / "api"
KEY = "a-key-of-the-test"


@pytest.fixture(scope="module")
def document(demo):
    status, document = get_json(demo.url, "/openapi.json")
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
    fields = (API / "completion_fields.def").read_text(encoding="utf-8")
    names = [line.split("(")[1].split(",")[0] for line in fields.splitlines() if "(" in line and line[0].isupper()]
    assert len(names) > 40
    assert set(names) == set(document["components"]["schemas"]["completions_request"]["properties"])


def test_every_field_of_the_official_client_is_known(document):
    known = document["components"]["schemas"]["completions_request"]["properties"]
    theirs = set(completion_create_params.CompletionCreateParamsNonStreaming.__annotations__)
    theirs |= set(completion_create_params.CompletionCreateParamsBase.__annotations__)
    assert len(theirs) > 15
    assert theirs <= set(known)


def test_the_official_client_is_accepted_with_all_of_them(demo, document):
    client = openai.OpenAI(base_url=f"{demo.url}/v1", api_key="none", max_retries=0)
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


def test_what_is_sent_is_what_it_says(demo, answers):
    full = {"prompt": ["Mr. Darcy", [5, 6]], "max_tokens": 3, "logprobs": 2, "echo": True, "return_token_ids": True}
    answers("Completion", post(demo.url, "/v1/completions", full)[2])
    events = Stream(demo.url, **full, stream_options={"include_usage": True}).read_all()
    assert events.pop() == "[DONE]" and len(events) > 3
    for event in events:
        answers("CompletionChunk", event)
    for path, name in (("/v1/models", "ModelList"), ("/health", "Health"), ("/ready", "Ready"),
                       ("/cluster", "Cluster"), ("/openapi.json", "OpenApi")):
        answers(name, get_json(demo.url, path)[1])
    answers("Tokens", post(demo.url, "/tokenize", {"prompt": "a b", "return_token_strs": True})[2])
    answers("Text", post(demo.url, "/detokenize", {"tokens": [5]})[2])
    answers("Error", post(demo.url, "/detokenize", {"tokens": "a"})[2])
    with pytest.raises(jsonschema.ValidationError):
        answers("Health", {"status": "ok", "more": 1})


@pytest.fixture(scope="module")
def with_key(clusters, tmp_path_factory):
    file = tmp_path_factory.mktemp("keys") / "keys"
    file.write_text(KEY + "\n", encoding="utf-8")
    return clusters("demo", 1, "--api-key-file", str(file))


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
