"""/v1/completions as clients use it: the official openai client, lm-evaluation-harness' requests, and plain HTTP."""

import openai
import pytest

from launch import get_json
from rest import Stream, complete, metrics, model_name, post

PROMPT = "It is a truth universally acknowledged, that"
OTHER = "Mr. Darcy"


@pytest.fixture
def client(demo):
    return openai.OpenAI(base_url=f"{demo.url}/v1", api_key="none", max_retries=0)


@pytest.fixture
def model(demo):
    return model_name(demo.url)


def ids_of(demo, text):
    return post(demo.url, "/tokenize", {"prompt": text})[2]["tokens"]


def test_the_openai_client_lists_models(client, model):
    assert [entry.id for entry in client.models.list()] == [model]
    assert client.models.retrieve(model).id == model


def test_the_openai_client_streams_what_it_also_gets_whole(client, model):
    fields = {"model": model, "prompt": PROMPT, "max_tokens": 40, "temperature": 0.9, "seed": 11}
    whole = client.completions.create(**fields)
    assert whole.object == "text_completion" and whole.model == model and whole.id
    assert whole.usage.total_tokens == whole.usage.prompt_tokens + whole.usage.completion_tokens
    chunks = list(client.completions.create(**fields, stream=True, stream_options={"include_usage": True}))
    text = "".join(choice.text for chunk in chunks for choice in chunk.choices)
    assert text == whole.choices[0].text and text
    reasons = [choice.finish_reason for chunk in chunks for choice in chunk.choices if choice.finish_reason]
    assert reasons == [whole.choices[0].finish_reason]
    assert chunks[-1].choices == [] and chunks[-1].usage.completion_tokens == whole.usage.completion_tokens
    assert len({chunk.id for chunk in chunks}) == 1
    assert sum(1 for chunk in chunks if chunk.choices) > 5, "tokens must come one by one"


def test_a_seed_repeats_and_its_absence_does_not(demo):
    fields = {"prompt": PROMPT, "max_tokens": 30, "temperature": 1}

    def text(**more):
        return complete(demo.url, **fields, **more)["choices"][0]["text"]

    assert text(seed=5) == text(seed=5)
    assert text(seed=5) != text(seed=6)
    assert text() != text()


def test_n_choices_differ_and_each_is_reproducible(demo):
    fields = {"prompt": PROMPT, "max_tokens": 30, "temperature": 1, "seed": 3}
    four = complete(demo.url, n=4, **fields)
    assert [choice["index"] for choice in four["choices"]] == [0, 1, 2, 3]
    texts = [choice["text"] for choice in four["choices"]]
    assert len(set(texts)) == 4
    assert complete(demo.url, n=1, **fields)["choices"][0]["text"] == texts[0]
    assert four["usage"]["completion_tokens"] == 120


def test_every_form_of_prompt(demo):
    one, two = ids_of(demo, PROMPT), ids_of(demo, OTHER)
    fields = {"max_tokens": 12, "temperature": 0}
    first = complete(demo.url, prompt=PROMPT, **fields)["choices"][0]["text"]
    second = complete(demo.url, prompt=OTHER, **fields)["choices"][0]["text"]
    assert complete(demo.url, prompt=one, **fields)["choices"][0]["text"] == first
    for prompt in ([PROMPT, OTHER], [one, two]):
        choices = complete(demo.url, prompt=prompt, **fields)["choices"]
        assert [(choice["index"], choice["text"]) for choice in choices] == [(0, first), (1, second)]


def test_several_prompts_with_n_are_indexed_prompt_by_prompt(demo):
    fields = {"max_tokens": 8, "temperature": 1, "seed": 1}
    choices = complete(demo.url, prompt=[PROMPT, OTHER], n=2, **fields)["choices"]
    assert [choice["index"] for choice in choices] == [0, 1, 2, 3]
    alone = complete(demo.url, prompt=OTHER, n=2, **fields)["choices"]
    assert [c["text"] for c in choices[2:]] == [c["text"] for c in alone]


def test_scoring_as_lm_evaluation_harness_asks_for_it(demo):
    """loglikelihood requests: token ids, echo, logprobs 1, max_tokens 0 or 1, temperature 0, several at once."""
    prompts = [ids_of(demo, PROMPT), ids_of(demo, OTHER)]
    scored = complete(demo.url, prompt=prompts, echo=True, logprobs=1, max_tokens=0, temperature=0)["choices"]
    for ids, choice in zip(prompts, scored):
        logprobs = choice["logprobs"]
        assert len(logprobs["tokens"]) == len(logprobs["token_logprobs"]) == len(logprobs["top_logprobs"]) == len(ids)
        assert logprobs["token_logprobs"][0] is None and logprobs["top_logprobs"][0] is None
        assert all(value <= 0 for value in logprobs["token_logprobs"][1:])
        for value, top in zip(logprobs["token_logprobs"][1:], logprobs["top_logprobs"][1:]):
            assert max(top.values()) >= value
    assert "".join(scored[0]["logprobs"]["tokens"]) == scored[0]["text"] == PROMPT
    with_one = complete(demo.url, prompt=prompts[0], echo=True, logprobs=1, max_tokens=1, temperature=0)["choices"][0]
    assert with_one["logprobs"]["token_logprobs"][:-1] == scored[0]["logprobs"]["token_logprobs"]
    assert len(with_one["logprobs"]["tokens"]) == len(prompts[0]) + 1
    offsets = with_one["logprobs"]["text_offset"]
    assert offsets == sorted(offsets) and offsets[0] == 0 and offsets[-1] == len(PROMPT)


def test_a_changed_later_token_changes_no_earlier_logprob(demo):
    ids = ids_of(demo, PROMPT + " a single man in possession of a good fortune")
    changed = ids[:-3] + [(ids[-3] + 1) % 4096] + ids[-2:]
    fields = {"max_tokens": 0, "echo": True, "logprobs": 0}
    one, two = (
        complete(demo.url, prompt=p, **fields)["choices"][0]["logprobs"]["token_logprobs"] for p in (ids, changed)
    )
    assert one[:-3] == two[:-3]
    assert one[-2:] != two[-2:]


def test_logprobs_of_the_output(demo):
    choice = complete(demo.url, prompt=PROMPT, max_tokens=10, temperature=0, logprobs=3)["choices"][0]
    logprobs = choice["logprobs"]
    assert len(logprobs["tokens"]) == 10 and "".join(logprobs["tokens"]) == choice["text"]
    for token, value, top in zip(logprobs["tokens"], logprobs["token_logprobs"], logprobs["top_logprobs"]):
        assert len(top) == 3
        assert top[token] == value == max(top.values()), "greedy takes the most likely"


def test_a_stop_string_ends_the_text_before_it(demo):
    whole = complete(demo.url, prompt=PROMPT, max_tokens=40, temperature=0)["choices"][0]["text"]
    stop = whole[12:19]  # wherever the tokens' borders are
    for stream in (False, True):
        if stream:
            events = Stream(demo.url, prompt=PROMPT, max_tokens=40, temperature=0, stop=[stop]).read_all()
            choices = [choice for event in events if event != "[DONE]" for choice in event["choices"]]
            text, reason = "".join(choice["text"] for choice in choices), choices[-1]["finish_reason"]
        else:
            choice = complete(demo.url, prompt=PROMPT, max_tokens=40, temperature=0, stop=stop)["choices"][0]
            text, reason = choice["text"], choice["finish_reason"]
        assert (text, reason) == (whole[: whole.index(stop)], "stop")
    assert complete(demo.url, prompt=PROMPT, max_tokens=40, temperature=0, stop=["\x01"])["choices"][0]["text"] == whole


def test_a_stop_token_and_min_tokens(demo):
    fields = {"prompt": PROMPT, "max_tokens": 20, "temperature": 0, "return_token_ids": True}
    free = complete(demo.url, **fields)["choices"][0]["token_ids"]
    cut = next(i for i in range(2, len(free)) if free[i] not in free[:i])
    stopped = complete(demo.url, stop_token_ids=[free[cut]], **fields)["choices"][0]
    assert stopped["finish_reason"] == "stop" and stopped["token_ids"][:cut] == free[:cut]
    assert len(stopped["token_ids"]) <= cut + 1
    later = complete(demo.url, stop_token_ids=[free[cut]], min_tokens=cut + 3, **fields)
    assert later["usage"]["completion_tokens"] >= cut + 3


def test_logit_bias_and_penalties_change_the_choice(demo):
    fields = {"prompt": PROMPT, "max_tokens": 24, "temperature": 0, "return_token_ids": True}
    free = complete(demo.url, **fields)["choices"][0]["token_ids"]
    banned = complete(demo.url, logit_bias={str(free[0]): -100}, **fields)["choices"][0]["token_ids"]
    assert free[0] not in banned
    forced = complete(demo.url, logit_bias={"77": 100}, **fields)["choices"][0]["token_ids"]
    assert set(forced) == {77}
    penalised = complete(demo.url, frequency_penalty=2, presence_penalty=2, **fields)["choices"][0]["token_ids"]
    assert len(set(penalised)) > len(set(free))


def test_ignore_eos_and_finish_reasons(demo):
    fields = {"prompt": PROMPT, "max_tokens": 5, "temperature": 0, "logit_bias": {"0": 100}}
    ended = complete(demo.url, **fields)
    assert ended["choices"][0]["finish_reason"] == "stop" and ended["choices"][0]["text"] == ""
    ignored = complete(demo.url, ignore_eos=True, return_token_ids=True, **fields)["choices"][0]
    assert ignored["finish_reason"] == "length" and ignored["token_ids"] == [0] * 5


@pytest.mark.parametrize(
    "fields, param",
    [
        ({"temperature": -1}, "temperature"),
        ({"temperature": "hot"}, "temperature"),
        ({"top_p": 0}, "top_p"),
        ({"top_p": 1.5}, "top_p"),
        ({"max_tokens": -1}, "max_tokens"),
        ({"max_tokens": 1.5}, "max_tokens"),
        ({"n": 0}, "n"),
        ({"n": 100000}, "n"),
        ({"logprobs": 1000}, "logprobs"),
        ({"stop": 5}, "stop"),
        ({"prompt": []}, "prompt"),
        ({"prompt": ""}, "prompt"),
        ({"prompt": [4096]}, "prompt"),
        ({"prompt": [-1]}, "prompt"),
        ({"prompt": {"a": 1}}, "prompt"),
        ({"logit_bias": {"x": 1}}, "logit_bias"),
        ({"best_of": 3}, "best_of"),
        ({"suffix": "x"}, "suffix"),
        ({"stream": "yes"}, "stream"),
        ({"seed": 1.5}, "seed"),
    ],
)
def test_a_bad_field_is_named(demo, model, fields, param):
    status, _, document = post(
        demo.url, "/v1/completions", {"model": model, "prompt": PROMPT, "max_tokens": 3, **fields}
    )
    assert status == 400, document
    error = document["error"]
    assert error["type"] == "invalid_request_error" and error["message"]
    assert error["param"] and error["param"].split("[")[0].split(".")[0] == param


def test_a_missing_prompt_and_malformed_json(demo, model):
    status, _, document = post(demo.url, "/v1/completions", {"model": model})
    assert (status, document["error"]["param"]) == (400, "prompt")
    status, _, document = post(demo.url, "/v1/completions", b'{"model": ')
    assert status == 400 and document["error"]["message"]


def test_errors_reach_the_openai_client(client):
    with pytest.raises(openai.NotFoundError):
        client.completions.create(model="no-such-model", prompt=PROMPT, max_tokens=1)
    with pytest.raises(openai.BadRequestError) as caught:
        client.completions.create(model=client.models.list().data[0].id, prompt=PROMPT, max_tokens=1, top_p=3)
    assert caught.value.param == "top_p"


def test_unknown_paths_and_methods(demo):
    status, document = get_json(demo.url, "/v1/nothing")
    assert status == 404 and document["error"]["message"]
    status, document = get_json(demo.url, "/v1/completions")
    assert status == 405 and document["error"]["message"]


def test_tokenize_and_detokenize_are_inverse(demo):
    text = "Café — naïve “quotes” \U0001f600\n\ttabs  and   spaces"
    status, _, tokenized = post(demo.url, "/tokenize", {"prompt": text})
    assert status == 200 and tokenized["count"] == len(tokenized["tokens"])
    status, _, back = post(demo.url, "/detokenize", {"tokens": tokenized["tokens"]})
    assert status == 200 and back["prompt"] == text


def test_health_ready_and_request_ids(demo):
    for path in ("/health", "/ready"):
        assert get_json(demo.url, path)[0] == 200
    _, headers, _ = post(demo.url, "/v1/completions", {"model": "x", "prompt": "y"})
    assert headers["x-request-id"]


def test_a_request_is_counted_on_the_coordinators_metrics(demo):
    def generated():
        return metrics(demo.process_of("coordinator")["metrics_url"])["krait_generation_tokens_total"]

    before = generated()
    complete(demo.url, prompt=PROMPT, max_tokens=7, temperature=0, ignore_eos=True)
    assert generated() - before == 7
