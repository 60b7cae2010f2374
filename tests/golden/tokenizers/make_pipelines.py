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

from pipeline_texts import FOUND, PROSE, text
from tokenizers import Tokenizer
from tokenizers.models import BPE
from tokenizers.pre_tokenizers import ByteLevel, Metaspace
from tokenizers.trainers import BpeTrainer

BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
BYTES_ONLY = dict(BYTE_LEVEL, use_regex=False)
ENDINGS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
REST = r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
CAPITALS, SMALL = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
# How families of models cut words: one expression behind the other.
CUTS = {
    "Llama 3": [ENDINGS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|" + REST],
    "Qwen": [ENDINGS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|" + REST],
    "capitals": [
        rf"[^\r\n\p{{L}}\p{{N}}]?{CAPITALS}*{SMALL}+{ENDINGS}?|[^\r\n\p{{L}}\p{{N}}]?{CAPITALS}+{SMALL}*{ENDINGS}?|"
        rf"\p{{N}}{{1,3}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    ],
    "DeepSeek": [
        r"\p{N}{1,3}",
        r"[一-龥぀-ゟ゠-ヿ]+",
        r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+|"""
        r" ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    ],
    "scripts": [r"\p{Han}+", r"[^\r\n\p{Han}\p{Greek}]?[\p{Cyrillic}\p{Greek}]+|\P{Latin}|\p{^Hangul}\d*|\w+|\D"],
}


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
    name, config = one("truncation and padding", post=TEMPLATE)
    config["truncation"] = {"direction": "Right", "max_length": 3, "strategy": "LongestFirst", "stride": 0}
    config["padding"] = {
        "strategy": {"Fixed": 16},
        "direction": "Right",
        "pad_to_multiple_of": None,
        "pad_id": 0,
        "pad_type_id": 0,
        "pad_token": "<unk>",
    }
    yield name, config
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
    for name, patterns in CUTS.items():
        splits = [
            {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}
            for pattern in patterns
        ]
        model = dict(BYTES, ignore_merges=name == "Llama 3")
        yield one(name, model=model, pre=sequence("pretokenizers", *splits, BYTES_ONLY))
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
    yield one(
        "Gemma",
        model=dict(FALLBACK, ignore_merges=False),
        normalizer={"type": "Replace", "pattern": {"String": " "}, "content": "▁"},
        pre={"type": "Split", "pattern": {"String": " "}, "behavior": "MergedWithPrevious", "invert": False},
        decoder=sequence(
            "decoders",
            {"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
            {"type": "ByteFallback"},
            {"type": "Fuse"},
        ),
    )
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


def decode(tokenizer, ids, skip):
    try:
        return tokenizer.decode(ids, skip_special_tokens=skip)
    except BaseException:  # the library's Strip panics on pieces shorter than it strips
        return None


def load(text):
    """A tokenizer without truncation and padding, which the file may ask for and krait does not apply."""
    tokenizer = Tokenizer.from_str(text)
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def pipelines():
    """(name, tokenizer.json) of each."""
    return itertools.chain(around_and_before(), cuts(), models_and_decoders())


def main():
    for name, config in pipelines():
        rng = random.Random(name)
        tokenizer = load(json.dumps(config))
        cases = []
        for s in ["", *FOUND, *(text(rng) for _ in range(59))]:
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
