"""jinja2 set up as transformers sets it up for chat templates: what our interpreter is compared with."""

import datetime
import functools
import json

import jinja2
import jinja2.ext
import jinja2.sandbox

NOW = 1789000000  # strftime_now tells this moment, in UTC


class GenerationTag(jinja2.ext.Extension):
    """{% generation %}: marks what the model says, and changes nothing in the text."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_body"), [], [], body).set_lineno(line)

    def _body(self, caller):
        return caller()


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def to_json(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(
        value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
    )


def strftime_now(form):
    return datetime.datetime.utcfromtimestamp(NOW).strftime(form)


def environment():
    env = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[GenerationTag, jinja2.ext.loopcontrols]
    )
    env.filters["tojson"] = to_json
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = strftime_now
    return env


ENVIRONMENT = environment()


@functools.lru_cache(maxsize=1)
def compiled(template):
    return ENVIRONMENT.from_string(template)


def render(template, variables):
    """The text, or None where jinja2 or Python refuses."""
    try:
        text = compiled(template).render(**variables)
        text.encode("utf-8")
    except Exception:  # noqa: BLE001: whatever it is, ours must refuse too
        return None
    return text
