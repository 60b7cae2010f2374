"""Chat templates rendered by jinja2, as transformers sets it up, and by krait-render-templates: the same text, or both refuse.

  with_jinja.py PROGRAM styles SEED CONVERSATIONS   the templates of golden/templates/styles over conversations at random
  with_jinja.py PROGRAM random SEED COUNT           templates at random, each over several variables

Prints what differs, and at the end how many texts are equal and how many both refuse. Exit code 1 where anything differs.
Not run by the test environment's Python: it needs jinja2."""

import itertools
import json
import pathlib
import subprocess
import sys
import warnings

GOLDEN = pathlib.Path(__file__).resolve().parents[1] / "golden" / "templates"
sys.path.insert(0, str(GOLDEN))

import conversations  # noqa: E402
import random_templates  # noqa: E402
import reference  # noqa: E402

VARIABLES = 3  # of each template at random
SHOWN = 10
LIMITS = ["does not fit 64 bits"]  # documented in the room's README
BATCH = 200  # templates in one run of the program


def styles(seed, count):
    fixed = list(conversations.variables())
    drawn = list(conversations.at_random(seed, count))
    for file in sorted((GOLDEN / "styles").glob("*.jinja")):
        yield file.read_text(encoding="utf-8"), fixed + drawn


def at_random(seed, count):
    """Most of them render: of those that jinja2 refuses every eighth is taken."""
    refused = 0
    for number in itertools.count():
        maker = random_templates.Maker(f"{seed}/{number}")
        template, variables = maker.block(), [maker.variables() for _ in range(VARIABLES)]
        if all(reference.render(template, each) is None for each in variables):
            refused += 1
            if refused % 8 != 0:
                continue
        yield template, variables
        count -= 1
        if count == 0:
            return


def compare(program, templates):
    """Yields (template, variables, jinja2's text, ours, why ours refuses) of each case."""
    while batch := list(itertools.islice(templates, BATCH)):
        lines = "".join(json.dumps({"template": t, "cases": cases}) + "\n" for t, cases in batch)
        done = subprocess.run([program], input=lines, capture_output=True, text=True, encoding="utf-8", check=True)
        for (template, cases), line in zip(batch, done.stdout.split("\n")[:-1], strict=True):
            ours = json.loads(line)
            for variables, text, why in zip(cases, ours["texts"], ours["whys"], strict=True):
                yield template, variables, reference.render(template, variables), text, why


def main():
    warnings.simplefilter("ignore")  # Python's own, about expressions that only chance writes
    program, kind, seed, count = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
    equal = refused = limited = different = 0
    for template, variables, theirs, ours, why in compare(program, {"styles": styles, "random": at_random}[kind](seed, count)):
        if theirs == ours:
            equal, refused = equal + (ours is not None), refused + (ours is None)
            continue
        if ours is None and any(limit in why for limit in LIMITS):
            limited += 1
            continue
        different += 1
        if different <= SHOWN:
            print(f"template: {template!r}\nvariables: {variables!r}\njinja2: {theirs!r}\nours:   {ours!r} {why if ours is None else ''}\n")
    print(f"{kind} (seed {seed}): {equal} equal, {refused} refused by both, {limited} beyond our limits, {different} different")
    return 1 if different or 1000 * limited > equal else 0


if __name__ == "__main__":
    sys.exit(main())
