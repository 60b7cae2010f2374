"""What no file of the tree may hold: work left undone, and paths of the machine on which somebody wrote it."""

import re

from source_files import tree_files

# Each pattern is written so that it does not find itself.
FORBIDDEN = [
    (re.compile(r"\b(?:TO[D]O|FIX[M]E|XX[X]|HAC[K])\b"), "work left undone belongs into an issue"),
    (re.compile(r"(?<![\w.])\.\.[/]shared\b|(?<![\w./-])/(?:work|home)[/]\w"), "a path outside the repository"),
    (re.compile(r"^(?:<{7}|>{7}|={7})(?:\s|$)"), "a conflict that was not resolved"),
]


def errors_in(path, text):
    for number, line in enumerate(text.splitlines(), 1):
        for pattern, why in FORBIDDEN:
            if pattern.search(line):
                yield f"{path}:{number}: {why}: {line.strip()[:80]}"


def check(root):
    found = []
    for path in tree_files(root):
        data = (root / path).read_bytes()
        if b"\0" not in data[:1024] and len(data) < 1 << 20 and path.suffix not in {".xz", ".json", ".jsonl"}:
            found += errors_in(path.as_posix(), data.decode("utf-8", errors="replace"))
    return found
