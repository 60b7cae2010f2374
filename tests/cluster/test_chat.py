"""/v1/chat/completions on the demo model with a template of its own: by the official client, and by hand."""

import math
import pathlib

import openai
import pytest
import rest

TEMPLATE = pathlib.Path(__file__).resolve().parents[1] / "golden" / "templates" / "styles" / "vicuna.jinja"
MESSAGES = [
    {"role": "system", "content": "Be plain."},
    {"role": "user", "content": "Who is Mr. Darcy?"},
]
PROMPT = "Be plain. USER: Who is Mr. Darcy? ASSISTANT:"


@pytest.fixture(scope="module")
def up(clusters):
    return clusters("demo", 1, "--chat-template", TEMPLATE)


@pytest.fixture(scope="module")
def client(up):
    return openai.OpenAI(base_url=f"{up.url}/v1", api_key="none", max_retries=0)


def ask(client, messages=None, **more):
    given = {"model": client.models.list().data[0].id, "temperature": 0, "max_tokens": 12, **more}
    return client.chat.completions.create(messages=MESSAGES if messages is None else messages, **given)


def test_a_chat_is_the_completion_of_its_rendered_text(up, client):
    answer = ask(client)
    completion = client.completions.create(model=answer.model, prompt=PROMPT, temperature=0, max_tokens=12)
    message = answer.choices[0].message
    assert (message.role, message.content) == ("assistant", completion.choices[0].text)
    assert answer.object == "chat.completion" and answer.id.startswith("chatcmpl-")
    assert answer.choices[0].finish_reason == completion.choices[0].finish_reason == "length"
    assert answer.usage == completion.usage
    assert answer.usage.completion_tokens == 12
    assert answer.system_fingerprint == completion.system_fingerprint


def test_a_stream_has_the_role_first_and_the_end_last(client):
    whole = ask(client, n=2, temperature=0.9, seed=5)
    chunks = list(ask(client, n=2, temperature=0.9, seed=5, stream=True, stream_options={"include_usage": True}))
    assert chunks[-1].choices == [] and chunks[-1].usage == whole.usage
    for index in range(2):
        own = [c.choices[0] for c in chunks[:-1] if c.choices[0].index == index]
        assert [c.delta.role for c in own] == ["assistant"] + [None] * (len(own) - 1)
        assert "".join(c.delta.content for c in own) == whole.choices[index].message.content
        assert [c.finish_reason for c in own] == [None] * (len(own) - 1) + ["length"]
    assert {c.object for c in chunks} == {"chat.completion.chunk"}
    assert whole.choices[0].message.content != whole.choices[1].message.content


def test_logprobs_have_every_token_with_its_bytes(client):
    answer = ask(client, logprobs=True, top_logprobs=4)
    entries = answer.choices[0].logprobs.content
    assert len(entries) == answer.usage.completion_tokens
    text = b"".join(bytes(entry.bytes) for entry in entries)
    assert text.decode() == answer.choices[0].message.content
    for entry in entries:
        assert len(entry.top_logprobs) == 4
        assert entry.top_logprobs[0].logprob == entry.logprob  # greedy takes the first
        assert bytes(entry.top_logprobs[0].bytes) == bytes(entry.bytes)
        assert sum(math.exp(top.logprob) for top in entry.top_logprobs) <= 1 + 1e-6
    streamed = [e for c in ask(client, logprobs=True, stream=True) if c.choices[0].logprobs
                for e in c.choices[0].logprobs.content]
    assert [(e.token, e.logprob) for e in streamed] == [(e.token, e.logprob) for e in entries]


def test_stop_and_parts_and_a_continued_message(client):
    text = ask(client).choices[0].message.content
    cut = text[3:6]
    stopped = ask(client, stop=cut).choices[0]
    assert stopped.message.content == text[: text.index(cut)] and stopped.finish_reason == "stop"
    parts = [MESSAGES[0], {"role": "user", "content": [{"type": "text", "text": "Who is Mr. Darcy?"}]}]
    assert ask(client, parts).choices[0].message.content == text
    begun = [*MESSAGES, {"role": "assistant", "content": "He is"}]
    more = {"continue_final_message": True, "add_generation_prompt": False}
    continued = ask(client, begun, extra_body=more).choices[0].message.content
    completion = client.completions.create(
        model=client.models.list().data[0].id, prompt=PROMPT + " He is", temperature=0, max_tokens=12
    )
    # The template writes its own words before the answer, and nothing behind what is continued.
    assert continued == completion.choices[0].text


@pytest.mark.parametrize(
    ("more", "param"),
    [
        ({"messages": []}, "messages"),
        ({"messages": [{"role": "user"}, 1]}, "messages[1]"),
        ({"messages": [{"content": "a"}]}, "messages[0].role"),
        ({"messages": [{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "image_url"}]}]},
         "messages[0].content[1].type"),
        ({"top_logprobs": 2}, "top_logprobs"),
        ({"tools": [{"type": "function", "function": {"name": "f"}}]}, "tools"),
        ({"tool_choice": "required"}, "tool_choice"),
        ({"response_format": {"type": "json_object"}}, "response_format"),
        ({"continue_final_message": True, "add_generation_prompt": True}, "continue_final_message"),
        ({"chat_template_kwargs": {"messages": []}}, "chat_template_kwargs.messages"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_wrong_is_named(up, more, param):
    status, _, body = rest.post(up.url, "/v1/chat/completions", {"messages": MESSAGES, **more})
    assert (status, body["error"]["param"]) == (400, param)


def test_empty_tools_and_harmless_fields_are_taken(client):
    assert ask(client, tools=[], user="me", extra_body={"chat_template_kwargs": {"x": 1}}).choices


def test_a_model_without_a_template_says_so(demo):
    status, _, body = rest.post(demo.url, "/v1/chat/completions", {"messages": MESSAGES})
    assert status == 400
    assert "--chat-template" in body["error"]["message"]
