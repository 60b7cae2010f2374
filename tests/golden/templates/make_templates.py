#!/usr/bin/env python3
"""Chat templates rendered by jinja2 as transformers sets it up (reference.py): what our interpreter must give.

A line: {"name": str, "template": str, "cases": [{"variables": {...}, "text": str or null}]}; null where it must refuse.
`styles` are the templates of styles/ over conversations.py; `random` those of random_templates.py.

  pip install jinja2==3.1.6
  python make_templates.py styles > styles.jsonl; python make_templates.py random 1 600 > random.jsonl
  xz -9ef styles.jsonl random.jsonl
"""

import json
import pathlib
import sys
import warnings

import conversations
import random_templates
import reference

HERE = pathlib.Path(__file__).resolve().parent


def line(name, template, variables):
    cases = [{"variables": v, "text": reference.render(template, v)} for v in variables]
    return json.dumps({"name": name, "template": template, "cases": cases}, ensure_ascii=False)


def styles():
    for file in sorted((HERE / "styles").glob("*.jinja")):
        yield line(file.stem, file.read_text(encoding="utf-8"), list(conversations.variables()))


def at_random(seed, count):
    for number, (template, variables, text) in enumerate(random_templates.cases(seed, reference.render, count)):
        cases = [{"variables": variables, "text": text}]
        yield json.dumps({"name": f"random {seed}/{number}", "template": template, "cases": cases}, ensure_ascii=False)


if __name__ == "__main__":
    warnings.simplefilter("ignore")  # Python's own, about expressions that only chance writes
    lines = styles() if sys.argv[1] == "styles" else at_random(int(sys.argv[2]), int(sys.argv[3]))
    for text in lines:
        print(text)
