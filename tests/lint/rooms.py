"""Who may include whom, and through which files third-party headers may come in: the table of the house."""

import re

from source_files import CPP_SUFFIXES, source_files

# A room may include itself and what stands here. The longest matching room wins.
_SHARD_ORDER = ["state", "collectives", "weights", "blocks", "engine", "scheduler", "service"]
_MODEL = ["common/base", "common/tensor", "common/model"]
_SHARD_BASE = ["common", "kernels"]

MAY_INCLUDE = {
    "common/base": [],
    "common/tensor": ["common/base"],
    "common/model": ["common/base", "common/tensor"],
    "common/weights": _MODEL,
    "common/wire": _MODEL,
    "common/transport": ["common/base"],
    "common/metrics": ["common/base"],
    "kernels": ["common/base", "common/tensor"],
    "shard_server/state": _SHARD_BASE,
    "shard_server/collectives": _SHARD_BASE,
    "shard_server/weights": _SHARD_BASE,
    **{
        f"shard_server/{room}": _SHARD_BASE + [f"shard_server/{earlier}" for earlier in _SHARD_ORDER[:index]]
        for index, room in enumerate(_SHARD_ORDER)
        if index >= 3
    },
    "shard_server": _SHARD_BASE,
    "coordinator/tokenizer": ["common"],
    "coordinator/chat_template": ["common"],
    "coordinator/prefix_directory": ["common"],
    "coordinator/http": ["common"],
    "coordinator/routing": ["common", "coordinator/prefix_directory"],
    "coordinator/requests": [
        "common",
        "coordinator/routing",
        "coordinator/prefix_directory",
        "coordinator/tokenizer",
        "coordinator/chat_template",
    ],
    "coordinator/api": ["common", "coordinator"],
    "coordinator": ["common"],
    "tests": ["common", "kernels", "shard_server", "coordinator", "deploy"],
    "deploy/tools": ["common", "kernels", "shard_server", "coordinator"],
    "deploy": ["common"],
}

# A third-party header and the only files that may name it. Tests may look behind the doors.
DOORS = [
    (r"^nccl\.h", r"^shard_server/collectives/nccl_"),
    (r"^(cuda|cublas)", r"^kernels/device/|\.cuh?$|_cublas\."),
    (r"^(zmq|zmq_addon)\.", r"^common/transport/zmq_"),
    (r"^(capnp|kj)/|\.capnp\.h$", r"^common/wire/"),
    (r"^prometheus/", r"^common/metrics/"),
    (r"^boost/(beast|asio)", r"^coordinator/http/|^common/metrics/exposition\."),
    (r"^spdlog/", r"^common/base/log\."),
    (r"^CLI/", r"^common/base/settings\.|^deploy/tools/"),
    (r"^xxhash\.", r"^common/(base/digest|weights/checkpoint)\."),
    (r"^nlohmann/", r"^common/(base/json_text|model/|weights/)|^coordinator/(http|api|tokenizer|chat_template)/|^deploy/tools/"),
    (r"immintrin\.h$", r"^kernels/(simd|gemm)/"),
    (r"^pcre2", r"^coordinator/tokenizer/"),
    (r"^utf8proc", r"^coordinator/(tokenizer|chat_template)/unicode\."),
    (r"^(gtest|gmock)/", r"^tests/"),
    (r"^gloo/", r"^shard_server/collectives/"),
]
_INCLUDE = re.compile(r'^\s*#\s*include\s+([<"])([^>"]+)[>"]')


def room_of(path):
    rooms = [room for room in MAY_INCLUDE if path.startswith(room + "/")]
    return max(rooms, key=len, default="")


def _is_main(path):
    """The daemon's own files stand above its rooms and may see all of them."""
    return re.match(r"^(shard_server|coordinator)/[^/]+$", path) is not None


def errors_in(path, text):
    """Complaints about one file, as "path:line: why"."""
    room = room_of(path)
    for number, line in enumerate(text.splitlines(), 1):
        match = _INCLUDE.match(line)
        if not match:
            continue
        target = match[2]
        for header, door in DOORS:
            if re.search(header, target) and not re.search(door, path) and not path.startswith("tests/"):
                yield f"{path}:{number}: <{target}> may only be included by {door}"
        if match[1] == "<":
            continue
        if not room:
            yield f"{path}:{number}: this file is in no room"
            continue
        allowed = [room, *MAY_INCLUDE[room]]
        if _is_main(path):
            allowed.append(path.split("/")[0])
        if not any(target.startswith(other + "/") for other in allowed) and not target.endswith(".capnp.h"):
            yield f'{path}:{number}: {room} may not include "{target}"'


def check(root):
    return [
        error
        for path in source_files(root, CPP_SUFFIXES)
        for error in errors_in(str(path), (root / path).read_text(encoding="utf-8"))
    ]
