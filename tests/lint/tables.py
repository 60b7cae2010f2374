"""The .def tables against the folders and the code that they list: nothing is listed that is not there or that nobody
uses, and nothing is there that its table lacks. Each check takes {path: text} of the tree and yields complaints."""

import re

from source_files import CPP_SUFFIXES, read_files

_ROW = re.compile(r"^([A-Z_]+)\((.*)$", re.MULTILINE)
_METRIC_KINDS = {"COUNTER": "CounterId", "GAUGE": "GaugeId", "HISTOGRAM": "HistogramId"}


def rows(text):
    """(macro, arguments) of each row, the arguments as far as they stand on its first line."""
    return [(macro, [part.strip(' "),') for part in rest.split(",")]) for macro, rest in _ROW.findall(text)]


def _product(files):
    """The text of all that is compiled into the daemons, without the tables themselves."""
    return "\n".join(
        text for path, text in files.items() if not path.startswith("tests/") and path.endswith((".cc", ".h", ".inc"))
    )


def _differ(table, listed, there, where):
    for name in sorted(set(listed) - set(there)):
        yield f"{table}: {name} is listed but not in {where}"
    for name in sorted(set(there) - set(listed)):
        yield f"{table}: {name} is in {where} but not listed"


def architectures(files):
    """One file for each family."""
    table = "common/model/architectures.def"
    folder = "common/model/architectures/"
    there = [path[len(folder) : -3] for path in files if path.startswith(folder) and path.endswith(".cc")]
    yield from _differ(table, [arguments[0] for _, arguments in rows(files[table])], there, folder)


def makers(table, column, name):
    """A check that each row's maker `make_X_...` is defined in X.cc beside the table, and that each one defined there
    is listed. `name` is what a maker is called, as a regular expression with one group."""
    folder = table.rpartition("/")[0] + "/"

    def check(files):
        there = {}
        for path, text in files.items():
            if path.startswith(folder) and path.endswith(".cc"):
                for match in re.finditer(rf"^[\w:<>]+ ({name})\(", text, re.MULTILINE):
                    there[match[1]] = path
                    if path != f"{folder}{match[2]}.cc":
                        yield f"{path}: {match[1]} belongs into {folder}{match[2]}.cc"
        yield from _differ(table, [arguments[column] for _, arguments in rows(files[table])], there, folder)

    return check


def endpoints(files):
    """Each handler is a function of endpoints/, and each such function has a path."""
    table = "coordinator/api/endpoints.def"
    folder = "coordinator/api/endpoints/"
    there = {}
    for path, text in files.items():
        if path.startswith(folder) and path.endswith(".cc"):
            found = re.findall(r"^void (\w+)\(Api&[ \w]*, const http::Request&", text, re.MULTILINE)
            there |= dict.fromkeys(found, path)
            if not found:
                yield f"{path}: has no handler"
    yield from _differ(table, [arguments[2] for _, arguments in rows(files[table])], there, folder)


def metrics(files):
    """Each metric is set somewhere, and each name that dashboards and cluster tests use is in the list."""
    table = "common/metrics/metric_names.def"
    product = _product(files)
    known = set()
    for macro, arguments in rows(files[table]):
        if macro not in _METRIC_KINDS:
            continue
        _, identifier, name = arguments[:3]
        if not re.search(rf"\b{_METRIC_KINDS[macro]}::{identifier}\b", product):
            yield f"{table}: nothing sets {identifier}"
        known.add(name)
        if macro == "HISTOGRAM":
            known |= {f"{name}_{part}" for part in ("bucket", "sum", "count")}
    for path, text in files.items():
        if path.startswith(("dashboards/", "tests/cluster/")):
            for number, line in enumerate(text.splitlines(), 1):
                for name in re.findall(r"(?<![\w./$-])krait_[a-z0-9_]+(?![\w(*])", line):
                    if name not in known:
                        yield f"{path}:{number}: no metric is named {name}"


def used(table, macros, column, pattern):
    """A check that the product's code uses each row of these macros. `pattern` is where a row's name is put in."""

    def check(files):
        product = _product(files)
        for macro, arguments in rows(files[table]):
            if macro in macros and not re.search(pattern.format(arguments[column]), product):
                yield f"{table}: nothing uses {arguments[column]}"

    return check


def limits(files):
    """Each bound is used outside limits.h: one that nobody looks at bounds nothing."""
    table = "common/base/limits.h"
    product = _product({path: text for path, text in files.items() if path != table})
    product += "\n".join(text for path, text in files.items() if path.endswith(".def"))
    for name in re.findall(r"^inline constexpr \w+ (k\w+)", files[table], re.MULTILINE):
        if not re.search(rf"\b{name}\b", product):
            yield f"{table}: nothing keeps {name}"


CHECKS = {
    "architectures": architectures,
    "blocks": makers("shard_server/blocks/blocks.def", 1, r"make_(\w+)_block"),
    "collectives": makers("shard_server/collectives/collectives.def", 1, r"make_(\w+)_communicator"),
    "endpoints": endpoints,
    "metrics": metrics,
    "errors": used("common/base/errors.def", {"ERROR"}, 0, r"\bErrc::{}\b"),
    "fields": used("coordinator/api/completion_fields.def", {"USED"}, 0, r'"{}"'),
    "limits": limits,
}


def check(root):
    files = read_files(root, CPP_SUFFIXES | {".def", ".md", ".py", ".json", ".yml", ".yaml"})
    return [error for run in CHECKS.values() for error in run(files)]
