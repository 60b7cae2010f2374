"""What schemathesis needs to know of Krait: requests stay short, answers are taken strictly, refusals name a field."""

import schemathesis

SHORT = 8  # tokens; what the schema allows beyond would only take time
# The fields of rules that no table of fields can say.
TOGETHER = {"best_of", "min_tokens", "max_tokens", "n", "prompt", "logprobs", "stream_options", "logit_bias"}
# What a chat template refuses or has no use for, and a chat's fields that go with others.
TOGETHER |= {"messages", "tools", "documents", "chat_template_kwargs", "continue_final_message", "top_logprobs"}


def close(schema):
    """In place: a property that the schema does not have is a fault."""
    if isinstance(schema, dict):
        if "properties" in schema:
            schema.setdefault("additionalProperties", False)
        for value in schema.values():
            close(value)
    elif isinstance(schema, list):
        for value in schema:
            close(value)


def close_answers(document):
    for name, schema in document["components"]["schemas"].items():
        if not name.endswith("_request"):
            close(schema)


@schemathesis.hook
def before_load_schema(context, raw_schema):
    close_answers(raw_schema)


@schemathesis.hook
def map_body(context, body):
    if isinstance(body, dict):
        if "messages" in body and body.get("max_tokens") is None:
            body["max_tokens"] = SHORT  # by default a chat goes on for long
        for name in ("max_tokens", "max_completion_tokens", "min_tokens"):
            value = body.get(name)
            # A whole number may be written as 1e5, too.
            if type(value) in (int, float) and SHORT < value <= 2**20:
                body[name] = SHORT
    return body


@schemathesis.check
def a_refusal_names_the_field(ctx, response, case):
    if response.status_code != 400 or not isinstance(case.body, dict):
        return
    param = response.json()["error"]["param"]
    assert isinstance(param, str) and param, f"which field is wrong? {response.text}"
    if case.meta is not None and case.meta.generation.mode == schemathesis.GenerationMode.POSITIVE:
        assert param.split(".")[0].split("[")[0] in TOGETHER, f"the schema allows it: {response.text}"
