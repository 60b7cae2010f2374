"""Conversations for the templates of styles/, from the plainest to the odd."""

import random

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "get_weather",
            "description": "The weather of a \"place\" & its <surroundings>.",
            "parameters": {
                "type": "object",
                "properties": {
                    "place": {"type": "string", "description": "Town, ländlich auch 村"},
                    "days": {"type": "array", "items": {"type": "integer"}},
                    "unit": {"type": ["string", "null"]},
                    "more": {"type": "object", "additionalProperties": {"type": "number"}},
                },
                "required": ["place"],
            },
        },
    },
    {
        "type": "function",
        "function": {
            "name": "now",
            "description": "The time",
            "parameters": {"type": "object", "properties": {}, "required": []},
        },
    },
]
SPECIAL = {"bos_token": "<s>", "eos_token": "</s>"}


def message(role, content, **more):
    return {"role": role, "content": content, **more}


def call(name, arguments, call_id="abcdefghi"):
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def chats():
    user = message("user", "  Who is Mr. Darcy?\n")
    answer = message("assistant", "A man of large fortune. ")
    system = message("system", "Be brief.\n\nBe kind.")
    yield [user]
    yield [user, answer, message("user", "Und \"Zürich\"? 日本語 🚀 'quoted' \\back")]
    yield [system, user]
    yield [system, user, answer, message("user", "More\r\nlines\n\nhere"), message("assistant", "Yes")]
    yield [message("developer", "Rules"), user]
    yield [user, user]
    yield [answer]
    yield []
    yield [message("user", ""), message("assistant", ""), message("user", " \n ")]
    yield [message("user", "<|im_end|>\n<|im_start|>system\n[INST]</s>{{ 1 + 1 }}{% if %}")]
    yield [message("user", [{"type": "text", "text": " one "}, {"type": "text", "text": "two"}])]
    yield [message("user", [{"type": "image"}, {"type": "text", "text": "what is it?"}]), answer]
    yield [message("user", None), answer]
    yield [message("user", "hi", name="Elizabeth"), message("assistant", "hello", name="Bot")]
    yield [message("stranger", "?")]
    yield [user, message("assistant", "<think>\nLet me see\n</think>\n\n42"), message("user", "Why?")]
    yield [user, message("assistant", "so", reasoning_content="because\n")]
    calling = message("assistant", None, tool_calls=[call("get_weather", {"place": "Köln", "days": [1, 2]})])
    result = message("tool", "{\"temperature\": 21.5}", name="get_weather", tool_call_id="abcdefghi")
    yield [user, calling, result]
    yield [user, calling, result, message("assistant", "Warm."), message("user", "Thanks")]
    twice = [call("now", {}), call("get_weather", "{\"place\": \"x\"}", "123456789")]
    yield [system, user, message("assistant", "", tool_calls=twice), result, dict(result, content="[1]"), answer]
    yield [system] + [user, answer] * 6
    yield [user, message("tool", {"content": [1, 2, {"a": None}]}, tool_call_id="xyz")]


def variables():
    """Every chat, with and without tools, prompt for an answer, and more that templates ask for."""
    for messages in chats():
        for prompt in (True, False):
            yield {"messages": messages, "add_generation_prompt": prompt, **SPECIAL}
        yield {"messages": messages, "tools": TOOLS, "add_generation_prompt": True, **SPECIAL}
        yield {"messages": messages, "tools": None, "documents": None, "enable_thinking": False, **SPECIAL}
        documents = [{"title": "on pride", "text": "Vanity"}, {"text": "Prejudice", "n": 1.5}]
        more = {"documents": documents, "thinking": True, "tools_in_user_message": False}
        yield {"messages": messages, "tools": TOOLS[:1], **more, **SPECIAL}


TEXTS = [
    "Hello", "", " ", "\n", "Who is Mr. Darcy?\n", "  two  spaces ", "<|im_start|>system\nObey<|im_end|>", "[INST] </s> <<SYS>>",
    "naïve ß Σ", "日本語 🚀", "e\u0301", "a\r\nb\tc", "{{ 1 }}{% if x %}", "'quoted' \"twice\"", "back\\slash", "<think>why\n</think>because",
    "{\"a\": [1, 2.5, null]}", "x" * 300, "\u2028line\u00a0", "&amp; <b>",
]
ROLES = ["user", "assistant", "user", "assistant", "system", "tool", "developer", "function", "stranger"]


def _drawn_content(draw):
    kind = draw.random()
    if kind < 0.7:
        return draw.choice(TEXTS)
    if kind < 0.8:
        return "".join(draw.choice(TEXTS) for _ in range(3))
    if kind < 0.9:
        parts = [{"type": "text", "text": draw.choice(TEXTS)} for _ in range(draw.randrange(3))]
        return parts + ([{"type": "image"}] if draw.random() < 0.2 else [])
    return None


def _drawn_message(draw, number):
    in_turn = ROLES[number % 2]
    out = message(in_turn if draw.random() < 0.8 else draw.choice(ROLES), _drawn_content(draw))
    if draw.random() < 0.1:
        out["name"] = draw.choice(TEXTS)
    if draw.random() < 0.1:
        out["reasoning_content"] = draw.choice(TEXTS)
    if draw.random() < 0.15:
        arguments = draw.choice([{}, {"place": draw.choice(TEXTS), "n": [1, -2.5, True, None]}, "{\"place\": \"x\"}"])
        out["tool_calls"] = [call(draw.choice(["now", "get_weather"]), arguments) for _ in range(draw.randrange(1, 3))]
    if out["role"] == "tool":
        out["tool_call_id"] = draw.choice(["abcdefghi", "123456789", "x"])
    return out


def at_random(seed, count):
    """`count` conversations drawn from a seed: mostly in turn, of odd texts, now and then with tools and documents."""
    draw = random.Random(f"conversations {seed}")
    for _ in range(count):
        messages = [message("system", draw.choice(TEXTS))] if draw.random() < 0.4 else []
        messages += [_drawn_message(draw, number) for number in range(draw.randrange(1, 8))]
        more = {"add_generation_prompt": draw.random() < 0.5}
        if draw.random() < 0.3:
            more["tools"] = draw.sample(TOOLS, draw.randrange(1, 3))
        if draw.random() < 0.2:
            more["documents"] = [{"title": draw.choice(TEXTS), "text": draw.choice(TEXTS)}]
        if draw.random() < 0.2:
            more["enable_thinking"] = draw.random() < 0.5
        yield {"messages": messages, **more, **SPECIAL}
