"""Compares krait-tokenizer-lines with Hugging Face's tokenizers on nasty texts and on ids in any order.

  with_tokenizers.py PROGRAM GOLDEN_TOKENIZERS COUNT SEED [NAME...]

Pipelines: the published vocabularies NAME.json of the folder, and those of make_pipelines.py, trained here and now. On
each COUNT texts, and every character. Prints a line for each; after a difference the smallest text that shows it, and
exit code 1. Not run by the test environment's
Python: it needs tokenizers, and nothing else."""

import concurrent.futures
import itertools
import json
import pathlib
import random
import subprocess
import sys
import tempfile

from nasty_texts import NastyTexts

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "golden" / "tokenizers"))
import make_pipelines  # noqa: E402


def with_stand_ins(config):
    """The tokenizer with private characters for its special tokens: whoever writes their usual text writes text. Also
    these characters, by token."""
    config = json.loads(json.dumps(config))
    special = [token for token in config["added_tokens"] if token["special"]]
    names = {token["content"]: chr(0xF0000 + number) for number, token in enumerate(special)}
    for token in special:
        token["content"] = names[token["content"]]
    model = config["model"]
    model["vocab"] = {names.get(token, token): id for token, id in model["vocab"].items()}
    model["unk_token"] = names.get(model.get("unk_token"), model.get("unk_token"))
    return config, names


class Pair:
    """One pipeline, in both libraries. A case is (a text, ids to decode, a message that a chat is made of)."""

    def __init__(self, program, path):
        self._program, self._path = program, path
        text = path.read_text(encoding="utf-8")
        config = json.loads(text)
        self.added = [token["content"] for token in config["added_tokens"]]
        self._theirs = make_pipelines.load(text)
        self.vocabulary = self._theirs.get_vocab_size()
        guarded, self._stand_ins = with_stand_ins(config)
        self._guarded = make_pipelines.load(json.dumps(guarded))

    def differences(self, cases):
        """(case, field, ours, theirs) of the first field of each case that differs."""
        done = subprocess.run(
            [self._program, self._path],
            input="".join(json.dumps(self._question(*case)) + "\n" for case in cases),
            capture_output=True,
            encoding="utf-8",
            check=True,
        )
        answers = done.stdout.splitlines()
        if len(answers) != len(cases):
            raise RuntimeError(f"{len(answers)} answers to {len(cases)} texts")
        for case, line in zip(cases, answers):
            ours = json.loads(line)
            for field, theirs in self._their_answer(*case).items():
                if theirs is not None and ours.get(field) != theirs:
                    yield case, field, ours.get(field, ours.get("error")), theirs
                    break

    def _chat(self, names, message):
        """What a template makes of two messages: special tokens and roles are the template's, the rest is the user's."""
        first, *_, last = names
        return [f"{first}user\n", message, f"{last}\n{first}assistant ", message[::-1], f"{last}\n"]

    def _question(self, text, more_ids, message):
        parts = [part.encode() for part in self._chat(self._stand_ins.keys(), message)]
        ends = list(itertools.accumulate(map(len, parts)))
        untrusted = [[ends[0], ends[1]], [ends[2], ends[3]]] if message else []
        return {"text": text, "more_ids": more_ids, "chat": b"".join(parts).decode(), "untrusted": untrusted}

    def _their_answer(self, text, more_ids, message):
        theirs = self._theirs
        theirs.encode_special_tokens = True
        plain = theirs.encode(text, add_special_tokens=False).ids
        theirs.encode_special_tokens = False
        ids = theirs.encode(text, add_special_tokens=False).ids
        answer = {"ids": ids, "special_ids": theirs.encode(text, add_special_tokens=True).ids, "plain_ids": plain}
        if not set(self._stand_ins.values()) & set(message):  # a stand-in is no text to them
            chat = "".join(self._chat(self._stand_ins.values(), message))
            answer["chat_ids"] = self._guarded.encode(chat, add_special_tokens=False).ids
        for skip in (False, True):
            suffix = "_skip" if skip else ""
            answer["decoded" + suffix] = make_pipelines.decode(theirs, ids, skip)
            answer["more_decoded" + suffix] = make_pipelines.decode(theirs, more_ids, skip)
        return answer

    def smallest(self, case):
        """A case that differs, and that no removal of a part leaves differing."""
        length = max(map(len, case))
        while length:
            smaller = []
            for at, part in enumerate(case):
                for begin in range(0, len(part), length):
                    changed = list(case)
                    changed[at] = part[:begin] + part[begin + length :]
                    smaller.append(tuple(changed))
            found = next(self.differences(smaller), None)
            if found:
                case = found[0]
            else:
                length //= 2
        return next(self.differences([case]))


def every_cut_shown(config):
    """The tokenizer with merges of any two bytes, so that wherever a text is cut, its ids tell. As it is where there are
    no tokens of bytes."""
    config = json.loads(json.dumps(config))
    vocab, merges = config["model"]["vocab"], config["model"]["merges"]
    alphabet = make_pipelines.ByteLevel.alphabet()
    if not vocab.keys() >= set(alphabet):
        return config
    first_free = len(vocab)
    pairs = [[left, right] for left in alphabet for right in alphabet if left + right not in vocab]
    for left, right in pairs:
        vocab[left + right] = len(vocab)
    merges += pairs
    for token in config["added_tokens"]:
        token["id"] += len(pairs) if token["id"] >= first_free else 0
    return config


def pipelines(golden, folder):
    """(name, path) of each tokenizer.json; those that are made here are written into the folder."""
    for path in sorted(golden.glob("*.json")):
        yield path.stem, path
    for number, (name, config) in enumerate(make_pipelines.pipelines()):
        path = folder / f"{number}.json"
        path.write_text(json.dumps(every_cut_shown(config)), encoding="utf-8")
        yield name, path


def draw_cases(pair, rng, count):
    texts = NastyTexts(rng, pair.added)
    for _ in range(count):
        more_ids = [rng.randrange(pair.vocabulary + 2) for _ in range(rng.randint(0, 12))]
        yield texts.text(), more_ids, texts.text()


def every_character():
    """Each character of the planes that have some, beside a letter, a digit, a sign and a space."""
    characters = [chr(code) for plane in ((0, 0xD800), (0xE000, 0x32400), (0xE0000, 0xE0200)) for code in range(*plane)]
    for begin in range(0, len(characters), 16):
        yield "".join(f"{c}a{c}1{c}.{c} {c}" for c in characters[begin : begin + 16]), [], ""


def compare(program, name, path, count, seed):
    """What is to be printed about a pipeline, and whether all was equal."""
    pair = Pair(program, path)
    cases = [*draw_cases(pair, random.Random(f"{seed} {name}"), count), *every_character()]
    different = list(pair.differences(cases))
    lines = [f"{name}: {len(cases) - len(different)} of {len(cases)} equal, seed {seed}"]
    if different:
        (text, ids, message), field, ours, theirs = pair.smallest(different[0][0])
        lines += [f"  the smallest that differs: text {text!a}, more ids {ids}, message {message!a}"]
        lines += [f"  {field}, ours:   {ours!a}", f"  {field}, theirs: {theirs!a}"]
    return "\n".join(lines), not different


def main():
    program, golden, count, seed = sys.argv[1], pathlib.Path(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ProcessPoolExecutor() as pool:
        compared = [
            pool.submit(compare, program, name, path, count, seed)
            for name, path in pipelines(golden, pathlib.Path(folder))
            if name in sys.argv[5:] or not sys.argv[5:]
        ]
        equal = True
        for done in compared:
            lines, all_equal = done.result()
            print(lines, flush=True)
            equal = equal and all_equal
    return 0 if equal else 1


if __name__ == "__main__":
    sys.exit(main())
