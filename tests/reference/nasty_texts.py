"""Texts in which tokenizers go wrong, from a random generator: every plane of Unicode, marks in any order, what composes
and what folds, all kinds of spaces and digits, special tokens whole and broken, and mixtures of these with prose."""

import sys
import unicodedata

SPACES = [chr(c) for c in range(0x110000) if chr(c).isspace() and not 0xD800 <= c < 0xE000]
SPACES += ["\u180e", "\u200b", "\u200c", "\u200d", "\u2060", "\ufeff", "\u2581", "\u2800", "\u3164"]
# The ends of planes, of what UTF-8 writes in one byte more, of what UTF-16 keeps for itself; what is no character.
EDGES = [0, 0x7F, 0x80, 0x7FF, 0x800, 0xD7FF, 0xE000, 0xFDD0, 0xFDEF, 0xFFFD, 0xFFFE, 0xFFFF, 0x10000, 0x10FFFF]
WORDS = """the of a in state space Model SERVING tensor don't THEY'RE we've I'm he'll she'D it'S o'clock '' 'ſ ſ K naïve
Zürich İstanbul straße ﬁne Ǆ ΣΟΦΟΣ Ω Å 한국어 日本語 你好 हिन्दी العربية ภาษาไทย 🚀 👩‍👩‍👧 🇩🇪 ❤️ x=y+z; (a+b) 3.14 1,000 0x1F C++ <br/>
https://example.org/a?b=c&d=%20 def f(x):\n  return {'a':[1]} _x_ __init__ -- ... … « » " \\n #1 @a $5 50% ` ~ ^ |""".split(" ")


class _Characters:
    """What Python's Unicode tables know, sorted by what a text wants."""

    def __init__(self):
        self.digits, self.marks, self.cased, self.composed, self.assigned = [], [], [], [], []
        for code in range(sys.maxunicode + 1):
            c = chr(code)
            category = unicodedata.category(c)
            if category in ("Cn", "Cs", "Co"):
                continue
            self.assigned.append(code)
            if category[0] == "N":
                self.digits.append(c)
            if category[0] == "M":
                self.marks.append(c)
            if c.lower() != c or c.upper() != c:
                self.cased.append(c)
            if unicodedata.decomposition(c):
                self.composed.append(c)


class NastyTexts:
    """Draws texts with `rng`; `specials` are the texts of a tokenizer's added tokens."""

    _characters = None

    def __init__(self, rng, specials):
        NastyTexts._characters = NastyTexts._characters or _Characters()
        self._rng = rng
        self._specials = list(specials)
        self._kinds = [self._any, self._block, self._edges, self._marked, self._composed, self._jamo, self._cased]
        self._kinds += [self._digits, self._spaces, self._special, self._words, self._words, self._run, self._bytes]

    def text(self):
        return "".join(self._rng.choice(self._kinds)() for _ in range(self._rng.choice((1, 1, 2, 3, 5, 8))))

    def _several(self, draw, most=6):
        return "".join(draw() for _ in range(self._rng.randint(1, most)))

    def _any(self):
        def draw():
            code = self._rng.choice((0x7F, 0x7FF, 0xFFFF, 0x1FFFF, 0x10FFFF))
            code = self._rng.randint(0, code)
            return "" if 0xD800 <= code < 0xE000 else chr(code)

        return self._several(draw, 12)

    def _block(self):
        """Neighbours, so that they are of one script and compose and join."""
        base = self._rng.choice(self._characters.assigned) & ~0x7F
        return self._several(lambda: chr(base + self._rng.randrange(128)), 8)

    def _edges(self):
        return self._several(lambda: chr(self._rng.choice(EDGES)))

    def _marked(self):
        marks = self._several(lambda: self._rng.choice(self._characters.marks), 5)
        return self._rng.choice(("a", "E", " ", "1", "か", "\u1100", "")) + marks

    def _composed(self):
        def draw():
            form = self._rng.choice(("NFC", "NFD", "NFKC", "NFKD"))
            c = self._rng.choice(self._characters.composed)
            return self._rng.choice((c, unicodedata.normalize(form, c)))

        return self._several(draw)

    def _jamo(self):
        ranges = ((0x1100, 0x1113), (0x1161, 0x1176), (0x11A7, 0x11C3), (0xAC00, 0xD7A3))
        return self._several(lambda: chr(self._rng.randint(*self._rng.choice(ranges))), 8)

    def _cased(self):
        return self._several(lambda: self._rng.choice(self._characters.cased))

    def _digits(self):
        if self._rng.random() < 0.5:
            return self._several(lambda: self._rng.choice("0123456789"), 9)
        return self._several(lambda: self._rng.choice(self._characters.digits))

    def _spaces(self):
        if self._rng.random() < 0.5:
            return self._rng.choice(" \n\t") * self._rng.choice((1, 2, 3, 4, 7, 16, 25))
        return self._several(lambda: self._rng.choice(SPACES))

    def _special(self):
        token = self._rng.choice(self._specials or ["<s>"])
        kind = self._rng.randrange(4)
        if kind == 0:
            return token[: self._rng.randint(0, len(token))] + self._rng.choice(("", token))
        if kind == 1:
            return self._rng.choice((" ", "\n", "x", "\u0301", "\u00a0")) + token + self._rng.choice(("  ", "1", "_", ""))
        return token * self._rng.randint(1, 2)

    def _words(self):
        return self._rng.choice(("", " ", "\n")) + self._rng.choice((" ", "", "  ")).join(
            self._rng.choice(WORDS) for _ in range(self._rng.randint(1, 8))
        )

    def _run(self):
        return self._rng.choice(self._rng.choice(WORDS) or " ") * self._rng.randint(2, 40)

    def _bytes(self):
        """What tokens of bytes look like, and the alphabet that byte-level tokens are written in."""
        return self._several(lambda: self._rng.choice(("<0x41>", "<0xE2>", "<0xZZ>", "Ġ", "Ċ", "Ã", "Ń", "â\u0080\u0099")))
