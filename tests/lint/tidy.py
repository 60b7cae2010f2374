"""clang-tidy has nothing to say about what is compiled into the programs, by the repository's .clang-tidy. Tests are
left out: they would double the time, and what is asked for most (copies, preallocation) does not matter in them.

Most of its time goes into the libraries' headers, again for every file. So many files are looked at together, as one
text that includes them all; those that cannot stand together, because they use one name for two things, are put into
different texts. That is many times as fast, and what a file forgets to include is found by headers.py."""

import concurrent.futures
import itertools
import re
import subprocess

import compiled

TOGETHER = 24  # files of one text, so that two processors have something to share
_NAMESPACE = re.compile(r"^namespace ([\w:]+) \{", re.MULTILINE)
# What stands at the start of a line and names something of the file's own: the house does not indent namespaces.
_OWN = re.compile(
    r"^(?:(?:struct|class|enum class|using|union) (\w+)"
    r"|(?:[a-z_][\w:<>,&*\[\] ]*[ &*>])?(\w+)\("
    r"|(?:inline |static |const |constexpr |constinit |thread_local )+[\w:<>,&* ]*?(\w+)(?: =|\{|;|\[|\())",
    re.MULTILINE,
)
_MACRO = re.compile(r"^#\s*(define|undef) (\w+)", re.MULTILINE)
_COMPLAINT = re.compile(r"^(.*?):(\d+):\d+: (?:error|warning): (.*)$")
_CLASH = re.compile(r"^(.*?):\d+:\d+: (?:fatal )?error: ", re.MULTILINE)


def _write(folder, number, root, units):
    text = folder / f"together_{number}.cc"
    text.write_text("".join(f'#include "{root / unit.path}"\n' for unit in units), encoding="utf-8")
    return text


def _run(command, root):
    return subprocess.run(
        [str(word) for word in command], cwd=root, capture_output=True, text=True, check=False, timeout=1200
    )


def own_names(text):
    """Names that a file gives at the level of its namespace, and macros that it leaves defined."""
    room = _NAMESPACE.search(text)
    names = {f"{room[1] if room else ''}::{name}" for match in _OWN.findall(text) for name in match if name}
    macros = _MACRO.findall(text)
    undone = {name for kind, name in macros if kind == "undef"}
    names = {name for name in names if not name.rpartition("::")[2].isupper() and "::TEST" not in name}
    return names | {name for kind, name in macros if kind == "define" and name not in undone}


def sorted_out(root, units):
    """Lists of units that share flags and no names, as far as can be read without a compiler."""
    lists = []  # of (flags, names, units)
    for unit in units:
        names = own_names((root / unit.path).read_text(encoding="utf-8"))
        for flags, taken, members in lists:
            if flags == unit.flags and len(members) < TOGETHER and not taken & names:
                taken |= names
                members.append(unit)
                break
        else:
            lists.append((unit.flags, names, [unit]))
    return [members for _, _, members in lists]


def batches(root, units, folder):
    """Texts that compile, as (text, units). A unit that does not compile even alone is a batch of its own."""
    numbers = itertools.count()
    waiting = sorted_out(root, units)
    while waiting:
        batch = waiting.pop(0)
        text = _write(folder, next(numbers), root, batch)
        if len(batch) > 1:
            done = _run(["clang++", "-fsyntax-only", "-w", "-ferror-limit=0", *batch[0].flags, text], root)
            clashing = set(_CLASH.findall(done.stderr))
            if done.returncode != 0:
                later = [unit for unit in batch[1:] if str(root / unit.path) in clashing] or batch[1:]
                waiting += [later, [unit for unit in batch if unit not in later]]
                continue
        yield text, batch


def complaints(output, root, folder):
    """{"path:line: message"} of clang-tidy's output about files below root, but for the texts in `folder`."""
    found = set()
    for line in output.splitlines():
        match = _COMPLAINT.match(line)
        if match and match[1].startswith(f"{root}/") and not match[1].startswith(f"{folder}/"):
            found.add(f"{match[1][len(str(root)) + 1 :]}:{match[2]}: {match[3].replace(',-warnings-as-errors', '')}")
    return found


def look_at(root, text, flags):
    """The complaints about one text and all that it includes of the tree."""
    config = root / ".clang-tidy"
    done = _run(["clang-tidy", "--quiet", f"--config-file={config}", text, "--", *flags], root)
    found = complaints(done.stdout, root, text.parent)
    if done.returncode != 0 and not found:
        return {f"clang-tidy: {text}: {(done.stderr or done.stdout)[-800:]}"}
    return found


def errors_in(root, units, folder, processes=2):
    folder.mkdir(parents=True, exist_ok=True)
    found = set()
    with concurrent.futures.ThreadPoolExecutor(processes) as pool:
        waiting = [pool.submit(look_at, root, text, batch[0].flags) for text, batch in batches(root, units, folder)]
        for done in waiting:
            found |= done.result()
    return sorted(found)


def check(root):
    build = compiled.build_folder(root)
    units = [unit for unit in compiled.units(root, build) if not unit.path.startswith("tests/")]
    return errors_in(root, units, build / "tidy")
