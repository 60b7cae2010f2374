"""The command line of deploy/up."""

import argparse
import ipaddress
import json
import os
import pathlib
import re
import shutil
import sys

from terminal import counted

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
DEMO_MODEL = REPOSITORY / "deploy" / "demo_model"
MAX_RANKS = 8
MAX_GROUPS = 64
MAX_PROCESSES = 1 + MAX_RANKS * MAX_GROUPS
MAX_INDEX_BYTES = 64 << 20
GGUF_MAGIC = b"GGUF"
HUB_NAME = r"[\w-][\w.-]*/[\w.-]+"
NUMBER = r"([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?"

EPILOG = """After `--` a command may follow: it runs once the cluster is ready, with KRAIT_URL, KRAIT_METRICS_URL and
KRAIT_RUN_DIR set, and deploy/up stops the cluster and exits with its exit code. What deploy/up itself says then goes to
standard error."""


def _between(low, high, kind=int):
    def parse(text):
        try:
            value = kind(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"{text!r} is not a number") from None
        if not low <= value <= high:
            raise argparse.ArgumentTypeError(f"{text} is not between {low} and {high}")
        return value

    return parse


def _path(text):
    if not text:
        raise argparse.ArgumentTypeError("an empty name is none")
    return pathlib.Path(text)


def _address(text):
    """The daemons look up no names."""
    if text != "localhost":
        try:
            ipaddress.ip_address(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"unknown host {text!r}: neither an IP address nor localhost") from None
    return text


def _shares(text):
    words = text.split(",")
    if not all(re.fullmatch(NUMBER, word) for word in words):
        raise argparse.ArgumentTypeError(f"{text!r} is no list of numbers, as 3,1")
    shares = [float(word) for word in words]
    if not all(1e-6 <= share <= 1e6 for share in shares):
        raise argparse.ArgumentTypeError(f"{text!r} has a number that is not between 0.000001 and 1000000")
    return text


def _prefill_split(text):
    if text not in ("auto", "never") and text not in map(str, range(2, MAX_RANKS + 1)):
        raise argparse.ArgumentTypeError(f"{text!r} is neither auto, never, nor a number of ranks from 2 to {MAX_RANKS}")
    return text


def _add_running(p):
    """Options of the run itself: where, how long, what is passed on."""
    p.add_argument(
        "--run-dir",
        type=_path,
        metavar="DIR",
        help="sockets, logs and cluster.json; logs stay there (default: a new folder, removed at the end)",
    )
    p.add_argument("--build-dir", type=_path, metavar="DIR", help="use the programs in DIR/bin, build nothing")
    p.add_argument("--no-sample", action="store_true", help="do not show a sample completion")
    p.add_argument(
        "--ready-timeout",
        type=_between(1, 86400, float),
        default=600.0,
        metavar="S",
        help="give up when the cluster is not ready after S seconds",
    )
    p.add_argument(
        "--grace",
        type=_between(0, 3600, float),
        default=15.0,
        metavar="S",
        help="time for open requests to finish when stopping",
    )
    p.add_argument(
        "--coordinator-arg", action="append", default=[], metavar="ARG", help="passed on as it is; repeatable"
    )
    p.add_argument("--shard-arg", action="append", default=[], metavar="ARG", help="passed on as it is; repeatable")


class _Parser(argparse.ArgumentParser):
    def error(self, message):
        """One line; the options with their meanings are in --help."""
        refuse(f"{message} (deploy/up --help tells of the options)")


def refuse(text, code=2):
    print(f"deploy/up: error: {text}", file=sys.stderr)
    sys.exit(code)


def _parser():
    p = _Parser(
        prog="deploy/up",
        allow_abbrev=False,
        epilog=EPILOG,
        description="Build Krait and start a cluster on this machine.",
    )
    p.add_argument(
        "--model",
        type=_path,
        default=DEMO_MODEL,
        metavar="MODEL",
        help="folder with config.json and safetensors, a GGUF file, or org/name of a downloaded folder (default: the bundled demo model)",
    )
    p.add_argument("--ranks", type=_between(1, MAX_RANKS), default=2, metavar="P", help="shard servers of a group (default: %(default)s)")
    p.add_argument("--shares", type=_shares, metavar="A,B", help="speeds of the ranks, as 3,1: they get such parts of the model (default: equal ones)")
    p.add_argument("--weights", choices=["cut", "whole"], help="what a rank holds: its part of every layer, or the whole model and its own sequences (default: cut)")
    p.add_argument("--prefill-split", type=_prefill_split, metavar="N", help="ranks with whole weights that read a long prompt together: auto (all), never, or a number (default: auto)")
    p.add_argument("--groups", type=_between(1, MAX_GROUPS), default=1, metavar="G", help="replicas of the model (default: %(default)s)")
    p.add_argument(
        "--threads",
        type=_between(1, 256),
        metavar="T",
        help="threads of a shard server (default: the cores this process may use, divided among them)",
    )
    p.add_argument("--dtype", choices=["f32", "bf16", "int8", "int4"], default="f32", help="type of the weights in memory (default: %(default)s)")
    p.add_argument(
        "--collectives",
        choices=["exact", "bf16", "int8", "int8-rotated", "int4", "int4-rotated", "auto", "fast"],
        help="how parts of hidden sums travel between ranks; all but exact round them and change the text; auto: as krait-tune"
        " found for this model; fast: by their size, so that a text depends on what else runs (default: exact)",
    )
    p.add_argument(
        "--collectives-plan",
        type=_path,
        metavar="FILE",
        help="what krait-tune wrote (default for --collectives auto: collectives-P.json in the model's folder)",
    )
    p.add_argument("--host", type=_address, default="127.0.0.1", help="address of the REST API (default: %(default)s)")
    p.add_argument(
        "--port",
        type=_between(0, 65535),
        default=8000,
        metavar="N",
        help="of the REST API (default: %(default)s); 0 picks every port",
    )
    p.add_argument(
        "--metrics-port",
        type=_between(1, 65535 - MAX_PROCESSES),
        metavar="N",
        help="of the coordinator's metrics, the others follow (default: from 9100 on, those that are free)",
    )
    p.add_argument("--metrics-host", type=_address, metavar="HOST", help="address of the metrics (default: that of --host)")
    p.add_argument("--served-model-name", metavar="NAME", help="name that clients use (default: that of the folder or file)")
    p.add_argument("--tokenizer", type=_path, metavar="FILE", help="another tokenizer.json than the model's")
    p.add_argument("--chat-template", type=_path, metavar="FILE", help="a Jinja file in place of the model's own")
    p.add_argument(
        "--api-key-file", type=_path, metavar="FILE", help="keys, one a line; without it none is asked for"
    )
    p.add_argument(
        "--slots", type=_between(1, 4096), metavar="N", help="sequences in flight (default: sized to memory)"
    )
    p.add_argument("--max-queue", type=_between(1, 1 << 20), metavar="N", help="requests waiting at a group")
    p.add_argument(
        "--max-step-ms", type=_between(0.1, 60000, float), metavar="X", help="time that prefill may fill a step up to"
    )
    p.add_argument("--request-timeout", type=_between(0.001, 86400, float), metavar="S", help="most that a request may take")
    _add_running(p)
    return p


def parse(arguments):
    """The options, with .command (a list, empty when there is none) and every path absolute."""
    command = []
    if "--" in arguments:
        cut = arguments.index("--")
        arguments, command = arguments[:cut], arguments[cut + 1 :]
        if not command:
            _parser().error("no command after --")
    options = _parser().parse_args(arguments)
    options.command = command
    options.metrics_host = options.metrics_host or options.host
    if options.prefill_split and options.prefill_split != "auto" and options.weights != "whole":
        refuse(f"--prefill-split {options.prefill_split} is for ranks with --weights whole")
    if options.shares and options.weights == "whole":
        refuse("--shares cuts a model, and --weights whole leaves it whole")
    if options.shares and options.shares.count(",") + 1 != options.ranks:
        count = options.shares.count(",") + 1
        refuse(f"--shares {options.shares}: {counted(count, 'number')} for {counted(options.ranks, 'rank')} (--ranks)")
    if not options.model.exists() and re.fullmatch(HUB_NAME, str(options.model), re.ASCII):
        options.served_model_name = options.served_model_name or str(options.model)
        options.model = _downloaded(str(options.model))
    for name in ("model", "tokenizer", "chat_template", "api_key_file", "run_dir", "build_dir"):
        value = getattr(options, name)
        if value is not None:
            setattr(options, name, value.absolute())
    if options.threads is None:
        cores = len(os.sched_getaffinity(0))
        options.threads = max(1, cores // (options.ranks * options.groups))
    _check_files(options)
    _check_command(command)
    return options


def _downloaded(name):
    """The folder of a model "org/name" in Hugging Face's cache, as the daemons look it up (common/weights)."""
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "huggingface" / "hub"
    if home := os.environ.get("HF_HOME"):
        cache = pathlib.Path(home) / "hub"
    kept = pathlib.Path(os.environ.get("HF_HUB_CACHE") or cache) / ("models--" + name.replace("/", "--"))
    if not kept.is_dir():
        refuse(f"--model {name}: no such folder or file here, and none downloaded: there is no {kept}")
    try:
        revision = (kept / "refs" / "main").read_text(encoding="utf-8").strip()
    except (OSError, ValueError):
        refuse(f"--model {name}: {kept} is no whole download: it has no refs/main that could be read")
    folder = kept / "snapshots" / revision
    if not folder.is_dir() or folder.parent.name != "snapshots":
        refuse(f"--model {name}: {kept} is no whole download: refs/main names {revision!r}, which is not in snapshots")
    return folder


def _check_files(options):
    def need(condition, text):
        if not condition:
            refuse(text)

    need(options.model.is_dir() or options.model.is_file(), f"--model {options.model}: no such folder or file")
    fault = _fault_of_model(options.model)
    need(fault is None, f"--model {options.model}: {fault}")
    for name in ("tokenizer", "chat_template", "api_key_file"):
        path = getattr(options, name)
        need(path is None or path.is_file(), f"--{name.replace('_', '-')} {path}: no such file")


def _check_command(command):
    """With the codes of a shell."""
    if command and shutil.which(command[0]) is None:
        if "/" in command[0] and os.path.exists(command[0]):
            refuse(f"cannot run {command[0]}: it is no program", 126)
        refuse(f"cannot run {command[0]}: no such program", 127)


def _fault_of_model(folder):
    """What is missing, or None. The daemons look closer; this is what can be told before minutes of building."""
    if folder.is_file():
        try:
            with open(folder, "rb") as file:
                return None if file.read(len(GGUF_MAGIC)) == GGUF_MAGIC else "a file, but no GGUF file"
        except OSError as error:
            return error.strerror
    if not (folder / "config.json").is_file():
        return "no config.json there"
    if (folder / "model.safetensors").is_file():
        return None
    index = folder / "model.safetensors.index.json"
    if not index.is_file():
        return "neither model.safetensors nor model.safetensors.index.json there"
    try:
        with open(index, encoding="utf-8") as file:
            names = sorted({str(name) for name in json.loads(file.read(MAX_INDEX_BYTES))["weight_map"].values()})
    except (OSError, ValueError, KeyError, AttributeError, TypeError):
        return "model.safetensors.index.json cannot be read"
    missing = [name for name in names if not (folder / name).is_file()]
    return f"model.safetensors.index.json names {missing[0]}, which is not there" if missing else None
