#!/usr/bin/env python3
"""Small tokenizers that use every part of a pipeline, with texts encoded by Hugging Face `tokenizers`.

A line of pipelines.jsonl:
  {"name": str, "tokenizer": {...}, "cases": [{"text", "ids", "special_ids", "plain_ids", "decoded", "decoded_skip",
                                               "prefixes"}]}
  ids          encode(text, add_special_tokens=False)
  special_ids  encode(text, add_special_tokens=True)
  plain_ids    ids with encode_special_tokens, where the text of a special token stays text
  prefixes     decode of the first 0, 1, 2... ids (at most 12)
A decoded text is null where the library gives none.

  pip install tokenizers==0.23.3
  python make_pipelines.py > pipelines.jsonl; xz -9e pipelines.jsonl
"""

import itertools
import json
import random

from tokenizers import Tokenizer
from tokenizers.models import BPE
from tokenizers.pre_tokenizers import ByteLevel, Metaspace
from tokenizers.trainers import BpeTrainer

PROSE = """\
It is a truth universally acknowledged, that a single man in possession of a good fortune, must be in want of a
wife. However little known the feelings or views of such a man may be on his first entering a neighbourhood, this truth
is so well fixed in the minds of the surrounding families, that he is considered the rightful property of some one or
other of their daughters. 1813, 20, 300 and 4000; x = y + z; don't, they're, we've, I'm, he'll, she'd. Zürich, naïve.
"My dear Mr. Bennet," said his lady to him one day, "have you heard that Netherfield Park is let at last?" """
PIECES = [
    "It is",
    " a truth",
    " universally",
    "man",
    "'s",
    "'LL",
    "they're",
    " ",
    "  ",
    "   ",
    "\n",
    "\n\n",
    "\t",
    "\r\n",
    "1813",
    "1234567",
    "3.14",
    "²",
    "½",
    "٣٤",
    "é",
    "e\u0301",
    "A\u030a",
    "한국어",
    "日本",
    "🚀",
    "👩\u200d👧",
    "\u00a0",
    "\u200b",
    "\u3000",
    "$+<=>",
    "!!",
    "...",
    "«x»",
    "<s>",
    "</s>",
    "<mask>",
    "word",
    "swordfish",
    " word ",
    "[SEP]",
    "_",
    "ß",
    "İ",
    "ﬁ",
    "\u180e",
    "\x1c",
    "\x85",
    "\x00",
    "▁",
    "▁▁",
    " ▁",
    "aaaa",
    "x = y",
    "Zürich",
    "<0x41>",
    "Ġ",
    "TRUTH",
]
BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
BYTES_ONLY = dict(BYTE_LEVEL, use_regex=False)
LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|"
    r"\s+(?!\S)|\s+"
)


def sequence(key, *parts):
    return {"type": "Sequence", key: list(parts)}


def train(pre_tokenizer, alphabet, size):
    tokenizer = Tokenizer(BPE())
    tokenizer.pre_tokenizer = pre_tokenizer
    trainer = BpeTrainer(
        vocab_size=size, initial_alphabet=alphabet, special_tokens=["<unk>", "<s>", "</s>"], show_progress=False
    )
    tokenizer.train_from_iterator([PROSE], trainer)
    return json.loads(tokenizer.to_str())["model"]


def added(content, id, special=False, **options):
    return dict(
        {
            "id": id,
            "content": content,
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
            "normalized": not special,
            "special": special,
        },
        **options,
    )


BYTES = train(ByteLevel(add_prefix_space=False), ByteLevel.alphabet(), 420)
CHARS = train(Metaspace(), [], 160)
FALLBACK = json.loads(json.dumps(CHARS))
for byte in range(256):
    FALLBACK["vocab"][f"<0x{byte:02X}>"] = len(FALLBACK["vocab"])
FALLBACK.update(byte_fallback=True, unk_token="<unk>", fuse_unk=True)
SPECIALS = [added("<unk>", 0, True), added("<s>", 1, True), added("</s>", 2, True)]
SPM_DECODER = sequence(
    "decoders",
    {"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
    {"type": "ByteFallback"},
    {"type": "Fuse"},
    {"type": "Strip", "content": " ", "start": 1, "stop": 0},
)
TEMPLATE = {
    "type": "TemplateProcessing",
    "single": [
        {"SpecialToken": {"id": "<s>", "type_id": 0}},
        {"Sequence": {"id": "A", "type_id": 0}},
        {"SpecialToken": {"id": "</s>", "type_id": 0}},
    ],
    "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
    "special_tokens": {
        "<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]},
        "</s>": {"id": "</s>", "ids": [2], "tokens": ["</s>"]},
    },
}


def metaspace(scheme, split=True):
    return {"type": "Metaspace", "replacement": "▁", "prepend_scheme": scheme, "split": split}


def one(name, model=BYTES, normalizer=None, pre=BYTE_LEVEL, post=None, decoder=BYTE_LEVEL, more=()):
    return name, {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": SPECIALS + list(more),
        "normalizer": normalizer,
        "pre_tokenizer": pre,
        "post_processor": post,
        "decoder": decoder,
        "model": model,
    }


def around_and_before():
    n = len(BYTES["vocab"])
    yield one("prefix space", pre=dict(BYTE_LEVEL, add_prefix_space=True))
    yield one("template", post=sequence("processors", BYTE_LEVEL, TEMPLATE))
    yield one(
        "added tokens",
        normalizer={"type": "Lowercase"},
        more=[
            added("<mask>", n, True, lstrip=True),
            added("[SEP]", n + 1, True, rstrip=True),
            added("word", n + 2, single_word=True),
            added("TRUTH", n + 3),
            added("sword", n + 4, single_word=True, normalized=False),
            added("  ", n + 5),
            added("   ", n + 6),
            added("日本", n + 7, lstrip=True, rstrip=True, normalized=False),
        ],
    )
    for form in ("NFC", "NFD", "NFKC", "NFKD", "Lowercase"):
        yield one(form, normalizer={"type": form})
    yield one("ByteLevel normalizer", normalizer={"type": "ByteLevel"}, pre=None)
    yield one(
        "normalizers",
        normalizer=sequence(
            "normalizers",
            {"type": "Strip", "strip_left": True, "strip_right": True},
            {"type": "Replace", "pattern": {"Regex": r"\s+"}, "content": " "},
            {"type": "Prepend", "prepend": "x"},
        ),
    )
    yield one("Strip left", normalizer={"type": "Strip", "strip_left": True, "strip_right": False})
    yield one("Replace with longer", normalizer={"type": "Replace", "pattern": {"Regex": "a+"}, "content": "-=-"})


def cuts():
    for behavior in ("Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"):
        for invert in (False, True):
            yield one(
                f"Split {behavior} {invert}",
                pre=sequence(
                    "pretokenizers",
                    {"type": "Split", "pattern": {"Regex": r"\s|[aeiou]"}, "behavior": behavior, "invert": invert},
                    BYTES_ONLY,
                ),
            )
        yield one(
            f"Punctuation {behavior}",
            pre=sequence("pretokenizers", {"type": "Punctuation", "behavior": behavior}, BYTES_ONLY),
        )
    yield one(
        "Split at a string",
        pre=sequence(
            "pretokenizers",
            {"type": "Split", "pattern": {"String": "is"}, "behavior": "Isolated", "invert": False},
            BYTES_ONLY,
        ),
    )
    yield one(
        "Llama 3",
        model=dict(BYTES, ignore_merges=True),
        pre=sequence(
            "pretokenizers",
            {"type": "Split", "pattern": {"Regex": LLAMA3}, "behavior": "Isolated", "invert": False},
            BYTES_ONLY,
        ),
    )
    for each in (False, True):
        yield one(
            f"Digits {each}", pre=sequence("pretokenizers", {"type": "Digits", "individual_digits": each}, BYTE_LEVEL)
        )
    for kind in ("Whitespace", "WhitespaceSplit"):
        yield one(kind, pre=sequence("pretokenizers", {"type": kind}, BYTES_ONLY))


def models_and_decoders():
    for scheme in ("always", "first", "never"):
        yield one(
            f"Metaspace {scheme}",
            model=dict(CHARS, unk_token="<unk>"),
            pre=metaspace(scheme, scheme != "never"),
            decoder=metaspace(scheme),
        )
    yield one(
        "Metaspace always, whole",
        model=FALLBACK,
        pre=metaspace("always", False),
        decoder=sequence("decoders", {"type": "ByteFallback"}, metaspace("always")),
    )
    yield one("fuse_unk", model=dict(CHARS, unk_token="<unk>", fuse_unk=True), pre=metaspace("first"), decoder=None)
    yield one("no unk", model=CHARS, pre=metaspace("first"), decoder={"type": "Fuse"})
    yield one(
        "SentencePiece",
        model=FALLBACK,
        pre=None,
        decoder=SPM_DECODER,
        post=TEMPLATE,
        normalizer=sequence(
            "normalizers",
            {"type": "Prepend", "prepend": "▁"},
            {"type": "Replace", "pattern": {"String": " "}, "content": "▁"},
        ),
    )
    yield one(
        "some bytes missing",
        model=dict(
            FALLBACK, vocab={token: id for token, id in FALLBACK["vocab"].items() if not token.startswith("<0xE")}
        ),
        pre=metaspace("first"),
        decoder=SPM_DECODER,
    )
    yield one(
        "Replace behind Fuse",
        decoder=sequence(
            "decoders",
            BYTE_LEVEL,
            {"type": "Replace", "pattern": {"Regex": "t+"}, "content": "T"},
            {"type": "Strip", "content": " ", "start": 2, "stop": 1},
        ),
    )
    yield one(
        "Strip each",
        pre=metaspace("first"),
        model=dict(CHARS, unk_token="<unk>"),
        decoder=sequence("decoders", {"type": "Strip", "content": "▁", "start": 1, "stop": 1}, {"type": "Fuse"}),
    )


def text(rng):
    return "".join(rng.choice(PIECES) for _ in range(rng.randint(0, 9)))


def decode(tokenizer, ids, skip):
    try:
        return tokenizer.decode(ids, skip_special_tokens=skip)
    except BaseException:  # the library's Strip panics on pieces shorter than it strips
        return None


def main():
    for name, config in itertools.chain(around_and_before(), cuts(), models_and_decoders()):
        rng = random.Random(name)
        tokenizer = Tokenizer.from_str(json.dumps(config))
        cases = []
        for s in [""] + [text(rng) for _ in range(59)]:
            tokenizer.encode_special_tokens = True
            plain_ids = tokenizer.encode(s, add_special_tokens=False).ids
            tokenizer.encode_special_tokens = False
            ids = tokenizer.encode(s, add_special_tokens=False).ids
            decoded = [decode(tokenizer, ids, skip) for skip in (False, True)]
            prefixes = [decode(tokenizer, ids[:k], False) for k in range(min(len(ids) + 1, 13))]
            cases.append(
                dict(
                    text=s,
                    ids=ids,
                    special_ids=tokenizer.encode(s, add_special_tokens=True).ids,
                    plain_ids=plain_ids,
                    decoded=decoded[0],
                    decoded_skip=decoded[1],
                    prefixes=prefixes,
                )
            )
        print(json.dumps({"name": name, "tokenizer": config, "cases": cases}))


if __name__ == "__main__":
    main()
