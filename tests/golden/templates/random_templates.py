"""Templates made at random from the grammar, with values to render: most of them render, some must be refused."""

import random

WORDS = ["a", "b", "Ab c", "  pad ", "x\ny", "", "it's", 'say "hi"', "naïve ß Σ", "日本 🚀", "1", "-2.5", "<b>&", "a.b,c", "A-b (c)"]
NAMES = ["x", "y", "items", "text", "number", "real", "flag", "nothing", "table", "messages", "missing"]
FILTERS = [
    "upper", "lower", "capitalize", "title", "trim", "length", "count", "first", "last", "list", "string", "int",
    "float", "abs", "round", "tojson", "sort", "unique|list", "reverse|list", "join", "join(', ')", "join('-', 'k')",
    "default('d')", "default('d', true)", "d", "replace('a', 'o')", "replace('a', 'o', 1)", "indent", "indent(2, true)",
    "indent('>', blank=true)", "center(9)", "truncate(5)", "truncate(4, true, '')", "wordcount", "tojson(indent=2)",
    "tojson(ensure_ascii=true)", "tojson(sort_keys=true, separators=(',', ':'))", "min", "max", "sum", "batch(2)|list",
    "slice(2)|list", "slice(3, 'f')|list", "batch(3, 0)|list", "dictsort", "dictsort(false, 'value')", "items|list",
    "map('upper')|list", "map('length')|join('/')", "map(attribute='k')|list", "map(attribute='k', default=9)|list",
    "select|list", "reject|list", "select('string')|list", "reject('none')|list", "selectattr('k')|list",
    "selectattr('k', 'gt', 1)|list", "rejectattr('k', 'defined')|list", "groupby('k')|list", "sort(attribute='k')",
    "sort(reverse=true)", "sort(case_sensitive=true)", "round(1)", "round(1, 'floor')", "round(0, 'ceil')", "int(7)",
    "int(base=16)", "float(1.5)", "format('q')", "first|upper", "last|string", "map('int')|sum", "max(attribute='k')",
    "urlencode", "attr('k')", "attr('no')",
]
TESTS = [
    "defined", "undefined", "none", "string", "mapping", "iterable", "sequence", "boolean", "integer", "float",
    "number", "true", "false", "callable", "even", "odd", "divisibleby(3)", "divisibleby 2", "in [1, 'a', none]",
    "eq 1", "equalto('a')", "ne 2", "gt 1", "ge(1)", "lt 2", "le 1.5", "upper", "lower", "sameas true", "== 1",
]
METHODS = [
    "upper()", "lower()", "title()", "capitalize()", "swapcase()", "strip()", "strip('a ')", "lstrip()", "rstrip()",
    "split()", "split(' ')", "split('a', 1)", "rsplit('b', 1)", "rsplit(none, 1)", "split(maxsplit=1)", "splitlines()",
    "splitlines(true)", "partition('b')", "rpartition(' ')", "startswith('a')", "endswith(('c', ' '))", "find('b')",
    "find('b', 1)", "rfind('a')", "index('a')", "count('a')", "count('')", "replace('a', '__')", "replace('', '.')",
    "join(['p', 'q'])", "join('xyz')", "isupper()", "islower()", "isdigit()", "isalpha()", "isspace()", "isalnum()",
    "istitle()", "zfill(6)", "center(8, '*')", "ljust(5)", "rjust(7, '0')", "removeprefix('a')", "removesuffix('c')",
    "format(1)", "items()", "keys()", "values()", "get('k')", "get('zz', 3)", "items()|list", "append(1)", "copy()",
    "isdecimal()", "isascii()", "isprintable()", "isnumeric()",
]
FORMATS = [
    "'%s-%r' % (x, text)", "'%d' % number", "'%5.2f|' % real", "'%-6s|%06d' % (text, number)", "'%(k)s' % table",
    "'{}:{}'.format(x, y)", "'{0}{0}'.format(text)", "'{:>6}|'.format(text)", "'{a:.3f}'.format(a=real)",
    "'{:05d}'.format(number)", "'{!r}'.format(text)", "'%x' % number", "'%%' % ()", "'{:,}'.format(number * 1000)",
    "'%e' % real", "'%+d' % number", "'{{}}'.format(1)", "'{0[k]}'.format(table)", "'{:<4}|{:^7}|'.format(text, x)",
]
OPERATORS = ["+", "-", "*", "/", "//", "%", "~", "==", "!=", "<", "<=", ">", ">=", "in", "not in", "and", "or", "**"]


class Maker:
    def __init__(self, seed):
        self.random = random.Random(seed)

    def pick(self, items):
        return self.random.choice(items)

    def chance(self, share):
        return self.random.random() < share

    def literal(self):
        kind = self.random.randrange(9)
        if kind < 3:
            word = self.pick(WORDS)
            quote = self.pick("'\"")
            escaped = word.replace("\\", "\\\\").replace(quote, "\\" + quote).replace("\n", "\\n")
            return quote + escaped + quote
        if kind == 3:
            return str(self.random.randrange(-3, 12))
        if kind == 4:
            return self.pick(["1.5", "0.0", "2e3", "1e22", "-0.25", "3.0", "1_000", "0x1F", "0b11", "1e-7"])
        if kind == 5:
            return self.pick(["true", "false", "none", "True", "None"])
        if kind == 6:
            return "[" + ", ".join(self.literal() for _ in range(self.random.randrange(4))) + "]"
        if kind == 7:
            return "(" + ", ".join(self.literal() for _ in range(2)) + ")"
        pairs = [f"{self.pick(['%k%', '%j%', '3', '%A%'])}: {self.literal()}".replace("%", "'") for _ in range(2)]
        return "{" + ", ".join(pairs) + "}"

    def expression(self, depth=0):
        if depth > 3:
            return self.pick(NAMES) if self.chance(0.6) else self.literal()
        kind = self.random.randrange(16)
        inner = lambda: self.expression(depth + 1)  # noqa: E731
        if kind < 3:
            return self.pick(NAMES)
        if kind < 4:
            return self.literal()
        if kind < 6:
            op = self.pick(OPERATORS)
            if op == "**":
                return f"({self.pick(['2', '-3', '1.5', 'number'])} ** {self.pick(['0', '2', '3', '-1'])})"
            return f"({inner()} {op} {inner()})"
        if kind < 8:
            return f"{self.atom(depth)}|{self.pick(FILTERS)}"
        if kind < 10:
            return f"{self.atom(depth)}.{self.pick(METHODS)}"
        if kind == 10:
            return f"({inner()} is {self.pick(['', 'not '])}{self.pick(TESTS)})"
        if kind == 11:
            return f"({inner()} if {inner()}{' else ' + inner() if self.chance(0.8) else ''})"
        if kind == 12:
            # Slices of names only: jinja2 computes those of literals by other rules, before it renders.
            if self.chance(0.6):
                part = self.pick(["1:", ":-1", "::2", "::-1", "-2:", "1:2", ":3", "number:", "5:1:-2", ":"])
                return f"{self.pick(NAMES)}[{part}]"
            index = self.pick(["0", "-1", "'k'", "number", "5", "x"])
            return f"{self.atom(depth)}[{index}]"
        if kind == 13:
            return f"{self.atom(depth)}.{self.pick(['k', 'j', 'A', 'role', 'content', '0'])}"
        if kind == 14:
            return self.pick([f"(not {inner()})", f"(-{self.atom(depth)})", f"({inner()} < {inner()} <= {inner()})"])
        return self.pick([self.pick(FORMATS), "range(4)", "range(5, 0, -2)|list", "dict(k=1, j='b')", "namespace(k=2).k"])

    def atom(self, depth):
        text = self.expression(depth + 1)
        return text if text in NAMES else f"({text})"

    def tag(self, body):
        left = self.pick(["", "", "", "-", "+"])
        right = self.pick(["", "", "", "-", "+"])
        return f"{{%{left} {body} {right}%}}"

    def output(self):
        left = self.pick(["", "", "-"])
        right = self.pick(["", "", "-"])
        text = self.expression()
        if text.startswith(("-", "+")):
            text = f"({text})"
        if self.chance(0.1):
            # What these give may only be printed.
            text = f"({text})|{self.pick(['e', 'safe', 'escape|safe', 'forceescape', 'e|e', 'safe|e', 'e|forceescape'])}"
            text += self.pick(["", "", " ~ x", " if flag else text|e"])
        if self.chance(0.05):
            return self.tag(f"print {text}, x|e")
        return f"{{{{{left} {text} {right}}}}}"

    def data(self):
        return self.pick(["\n", "  ", " \n  ", "text", "<|im_start|>", "\n\n", "a b\n", "}}", "{ ", "#", "\t"])

    def statement(self, depth, in_loop):
        kind = self.random.randrange(14)
        body = lambda loop=in_loop: self.block(depth + 1, loop)  # noqa: E731
        if kind < 3:
            middle = self.tag(f"elif {self.expression()}") + body() if self.chance(0.3) else ""
            middle += self.tag("else") + body() if self.chance(0.5) else ""
            return self.tag(f"if {self.expression()}") + body() + middle + self.tag("endif")
        if kind < 6:
            loop = self.pick(["items", "messages", "range(3)", "text", "table", "missing", "table.items()", "number"])
            target = "k, v" if loop == "table.items()" else self.pick(["x", "i"])
            condition = f" if {self.expression(2)}" if self.chance(0.2) else ""
            shown = self.pick(["index", "index0", "first", "last", "length", "revindex", "revindex0", "previtem", "nextitem",
                               "depth", "cycle('a', 'b')", "changed(x)"])
            otherwise = self.tag("else") + body() if self.chance(0.2) else ""
            inside = body(True) + (f"{{{{ loop.{shown} }}}}" if self.chance(0.7) else "")
            return self.tag(f"for {target} in {loop}{condition}") + inside + otherwise + self.tag("endfor")
        if kind < 8:
            return self.tag(f"set {self.pick(['x', 'y', 'items', 'z'])} = {self.expression()}")
        if kind == 8:
            name = self.pick(["x", "z"])
            chosen = self.pick(["", " | upper", " | trim | length"])
            return self.tag(f"set {name}{chosen}") + body() + self.tag("endset")
        if kind == 9:
            return (self.tag("set ns = namespace(n=0)") + self.tag("for q in items") + self.tag("set ns.n = ns.n + 1") +
                    self.tag("endfor") + "{{ ns.n }}{{ ns }}")
        if kind == 10:
            name = self.pick(["m", "f"])
            uses = self.pick(["{{ p }}", "{{ p ~ q }}", "{{ varargs }}", "{{ kwargs }}", "{{ caller() if caller else p }}"])
            made = self.tag(f"macro {name}(p, q={self.literal()})") + uses + body(False) + self.tag("endmacro")
            arguments = self.pick(["1", "'a', 2", "q=3", "x, q=y", "", "1, 2, 3", "p=text, z=1"])
            if self.chance(0.3):
                return made + self.tag(f"call {name}({arguments})") + "called" + self.tag("endcall")
            return made + f"{{{{ {name}({arguments}) }}}}"
        if kind == 12:
            made = self.pick(["cycler('p', x, 3)", "cycler(y)", "joiner()", "joiner('|')", "joiner(sep=x)"])
            uses = "{{ q() }}" if made.startswith("joiner") else self.pick(
                ["{{ q.next() }}", "{{ q.current }}{{ q.next() }}", "{{ q.next() }}{{ q.reset() }}"])
            return self.tag(f"set q = {made}") + self.tag("for i in items") + uses + self.tag("endfor") + body()
        if kind == 11:
            return self.tag(f"with x = {self.expression(2)}") + body() + self.tag("endwith")
        if in_loop and self.chance(0.6):
            return self.tag(f"if {self.expression(2)}") + self.tag(self.pick(["break", "continue"])) + self.tag("endif")
        return self.pick([
            self.tag("filter upper") + body(False) + self.tag("endfilter"), "{# a {{ comment }} #}", "{#- cut -#}\n",
            self.tag("raw") + "{{ raw }} {% if %}" + self.tag("endraw"),
            self.tag("generation") + body(False) + self.tag("endgeneration"),
        ])

    def block(self, depth=0, in_loop=False):
        parts = []
        for _ in range(self.random.randrange(1, 5)):
            kind = self.random.random()
            if kind < 0.35 or depth > 3:
                parts.append(self.output())
            elif kind < 0.6:
                parts.append(self.data())
            else:
                parts.append(self.statement(depth, in_loop))
        return "".join(parts)

    def variables(self):
        word = lambda: self.pick(WORDS)  # noqa: E731
        return {
            "x": self.pick([1, 0, "a", None, True, 2.5, [], ["q"], {"k": 1}, word()]),
            "y": self.pick(["b", 3, [1, 2], {"j": "z"}, -7, word()]),
            "items": self.pick([[3, 1, 2], ["b", "A", "c"], [], [{"k": 2, "j": "x"}, {"k": 1}], [1, "a", None], [[1], [0]]]),
            "text": word(),
            "number": self.pick([0, 1, 7, -4, 255]),
            "real": self.pick([0.5, 3.14159, -2.0, 1e21, 100.0]),
            "flag": self.chance(0.5),
            "nothing": None,
            "table": {"k": self.pick([1, "v"]), "j": word(), "A": [1, {"n": None}]},
            "messages": [{"role": "user", "content": word()}, {"role": "assistant", "content": word()}],
        }


def cases(seed, render, count):
    """`count` triples (template, variables, text), a quarter of which may be such that nothing renders: text None."""
    refused = 0
    number = 0
    while count > 0:
        maker = Maker(f"{seed}/{number}")
        number += 1
        template, variables = maker.block(), maker.variables()
        text = render(template, variables)
        if text is None:
            refused += 1
            if refused % 8 != 0:
                continue
        count -= 1
        yield template, variables, text
