"""What the small tokenizers of make_pipelines.py are trained on, and the texts that they encode."""

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
# Texts that once gave other ids than the reference's.
FOUND = [
    "\U00010d27\u08f2 \u1df8\u0859 \u1df6\u1ac3",  # marks that are younger than the reference's normal forms
    "\U0001e04c \U0001f16c \u32ff \U00011935\U00011930",
    "\u1106\u1168\u11a7 \u1105\u1166\u11a7",  # no part of a syllable
    "\ua7da\U00016eb2\U00010d50",  # capitals of Unicode 16 and 17
    "a\U0002ebf0\U00031350b \U00010d40\U0001ccf9 \u0897\u2427",  # letters, numbers, marks and signs since Unicode 15
    "漢\u3001\u3007字\u30fb",  # used with a script, and not of it
]


def text(rng):
    return "".join(rng.choice(PIECES) for _ in range(rng.randint(0, 9)))
