"""Files up to 400 lines, functions up to 70: a ratchet. What is larger today stands in sizes_allowed.txt with its size;
it may shrink and not grow, and nothing may join it."""

import ast
import re

from source_files import CPP_SUFFIXES, source_files

MAX_FILE_LINES = 400
MAX_FUNCTION_LINES = 70
ALLOWED = "tests/lint/sizes_allowed.txt"

_STRINGS = re.compile(r'"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])*\'')
_RAW_STRING = re.compile(r'R"([^()\\\s]{0,16})\(.*?\)\1"', re.DOTALL)
_BLOCK_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
_NOT_A_FUNCTION = re.compile(r"\b(namespace|class|struct|union|enum|extern)\b(?![^(]*\))|=\s*$")
_ACCESS = ("public:", "protected:", "private:")


def _blank(match):
    return "\n" * match[0].count("\n")


def _strip(text):
    """The text without comments, literals and preprocessor lines, line for line."""
    text = _RAW_STRING.sub(_blank, text)
    text = _BLOCK_COMMENT.sub(_blank, text)
    lines = []
    continued = False
    for line in text.split("\n"):
        directive = continued or line.lstrip().startswith("#")
        continued = directive and line.endswith("\\")
        lines.append("" if directive else re.sub(r"//.*", "", _STRINGS.sub("0", re.sub(r"(?<=\d)'(?=\d)", "", line))))
    return lines


def cpp_functions(text):
    """(name, first line, lines) of every function body that stands in a namespace or a class."""
    found = []
    scopes = []  # one entry an open brace: None for a namespace or class, "inner" within a function, else (name, line)
    head, head_line = "", 0
    for number, line in enumerate(_strip(text), 1):
        for char in line + "\n":
            if char == "{":
                outer = not scopes or scopes[-1] is None
                is_function = outer and "(" in head and not _NOT_A_FUNCTION.search(head.split("(")[0] + "()")
                scopes.append((_name(head), head_line) if is_function else None if outer else "inner")
                head = ""
            elif char == "}":
                scope = scopes.pop() if scopes else None
                if isinstance(scope, tuple):
                    found.append((scope[0], scope[1], number - scope[1] + 1))
                head = ""
            elif char == ";":
                head = ""
            else:
                if not head.strip():
                    head, head_line = "", number
                head += char
            if head.strip() in _ACCESS:
                head = ""
    return found


def _name(head):
    names = re.findall(r"([A-Za-z_~][\w:~]*)\s*\(", head)
    return names[0] if names else "?"


def python_functions(text):
    return [
        (node.name, node.lineno, node.end_lineno - node.lineno + 1)
        for node in ast.walk(ast.parse(text))
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
    ]


def oversize(path, text):
    """{key: lines} of what is too large in one file; a key is the path, or path and function."""
    large = {}
    lines = text.count("\n")
    if lines > MAX_FILE_LINES:
        large[path] = lines
    functions = python_functions(text) if path.endswith(".py") else cpp_functions(text)
    for name, _, length in functions:
        if length > MAX_FUNCTION_LINES:
            large[f"{path} {name}"] = max(length, large.get(f"{path} {name}", 0))
    return large


def read_allowed(text):
    allowed = {}
    for line in text.splitlines():
        if line.strip() and not line.startswith("#"):
            key, _, lines = line.rpartition(" ")
            allowed[key] = int(lines)
    return allowed


def compare(large, allowed):
    """Complaints: what is new or grew, and what may be struck from the list."""
    errors = [
        f"{key}: {lines} lines, at most {allowed.get(key, 'the limit')} allowed"
        for key, lines in sorted(large.items())
        if lines > allowed.get(key, 0)
    ]
    errors += [
        f"{ALLOWED}: {key} is now {large.get(key, 'within the limit')}: write that down"
        for key, lines in sorted(allowed.items())
        if large.get(key, 0) < lines
    ]
    return errors


def check(root):
    large = {}
    for path in source_files(root, CPP_SUFFIXES | {".py"}):
        large.update(oversize(str(path), (root / path).read_text(encoding="utf-8")))
    return compare(large, read_allowed((root / ALLOWED).read_text(encoding="utf-8")))
