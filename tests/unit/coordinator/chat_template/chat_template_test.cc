// What is refused, where, and which bytes of a render come from values.
#include "coordinator/chat_template/chat_template.h"

#include <gtest/gtest.h>

#include "coordinator/chat_template/json.h"

namespace krait::chat_template {
namespace {

std::string load_error(const std::string& source) {
  const auto loaded = ChatTemplate::parse(source, "t.jinja");
  return loaded.ok() ? "" : loaded.error().message;
}

Result<Rendered> render(const std::string& source, const std::string& variables = "{}") {
  auto loaded = ChatTemplate::parse(source, "t.jinja");
  if (!loaded.ok()) return loaded.error();
  const Value values = parse_json(variables).value();
  ChatTemplate::Variables named;
  for (const auto& [key, value] : values.as_dict().entries)
    named.emplace_back(key.bytes(), value);
  return (*loaded)->render(named, 0);
}

std::string text_of(const std::string& source, const std::string& variables = "{}") {
  const auto out = render(source, variables);
  return out.ok() ? out->text : "refused: " + out.error().message;
}

/// The text with what comes from values between brackets.
std::string marked(const std::string& source, const std::string& variables) {
  const auto out = render(source, variables);
  if (!out.ok()) return out.error().message;
  std::string marked;
  size_t at = 0;
  for (const ByteRange& range : out->untrusted) {
    marked +=
        out->text.substr(at, range.begin - at) + "[" + out->text.substr(range.begin, range.end - range.begin) + "]";
    at = range.end;
  }
  return marked + out->text.substr(at);
}

TEST(ChatTemplate, WhatIsUnknownIsRefusedWithItsPlace) {
  EXPECT_EQ(load_error("a\n  {% include 'x' %}"), "t.jinja:2:6: the statement 'include' is not supported");
  EXPECT_EQ(load_error("{{ x|nosuch }}"), "t.jinja:1:6: there is no filter 'nosuch'");
  EXPECT_EQ(load_error("ä{{ x is nosuch }}"), "t.jinja:1:10: there is no test 'nosuch'");
  EXPECT_EQ(load_error("{% if x %}\n"), "t.jinja:1:11: 'endif' is missing");
  EXPECT_EQ(load_error("{{ 'x }}"), "t.jinja:1:4: a string has no end");
  EXPECT_EQ(load_error("{{ (1 }}"), "t.jinja:1:7: unexpected '}', expected ')'");
  EXPECT_EQ(load_error("{{ x"), "t.jinja:1:1: a tag has no end");
  EXPECT_EQ(load_error("{% break %}"), "t.jinja:1:4: 'break' stands outside of a loop");
  EXPECT_EQ(load_error("{{ 99999999999999999999 }}"), "t.jinja:1:4: an integer does not fit 64 bits");
  EXPECT_EQ(load_error("{% set y = x|safe %}{{ y }}"),
            "t.jinja:1:14: the filter 'safe' is only supported as the last one of what is printed");
  EXPECT_EQ(load_error("{{ x|tojson|safe }}"), "");
  EXPECT_EQ(load_error("{% if x|e == 'a' %}{% endif %}"),
            "t.jinja:1:9: the filter 'e' is only supported as the last one of what is printed");
  EXPECT_EQ(load_error("{{ x|e|upper }}"),
            "t.jinja:1:6: the filter 'e' is only supported as the last one of what is printed");
  EXPECT_EQ(load_error("{{ x|escape + y }}"),
            "t.jinja:1:6: the filter 'escape' is only supported as the last one of what is printed");
  EXPECT_EQ(load_error("{% filter e %}{% endfilter %}"), "t.jinja:1:11: the filter 'e' is not supported for blocks");
  EXPECT_EQ(load_error("{{ x|e(1) }}"), "t.jinja:1:6: the filter 'e' takes no arguments");
  for (const std::string name : {"filesizeformat", "pprint", "random", "striptags", "urlize", "wordwrap", "xmlattr"}) {
    EXPECT_EQ(load_error("{{ x|" + name + " }}"), "t.jinja:1:6: the filter '" + name + "' is not supported");
    EXPECT_EQ(load_error("{{ x|map('" + name + "')|list }}"),
              "t.jinja:1:6: the filter '" + name + "' is not supported in map");
  }
  EXPECT_EQ(load_error("{{ x|map('e')|join }}"), "t.jinja:1:6: the filter 'e' is not supported in map");
  for (const std::string name : {"import", "from", "extends", "block", "autoescape", "do", "trans"}) {
    EXPECT_EQ(load_error("{% " + name + " 'x' %}"), "t.jinja:1:4: the statement '" + name + "' is not supported");
  }
  EXPECT_EQ(load_error("{{ lipsum() }}"), "t.jinja:1:4: 'lipsum' is not supported");
  EXPECT_EQ(load_error("{{ self.title() }}"), "t.jinja:1:4: 'self' is not supported");
  for (const std::string name :
       {"casefold", "encode", "expandtabs", "isidentifier", "maketrans", "translate", "fromkeys"}) {
    EXPECT_EQ(load_error("{{ x." + name + "() }}"), "t.jinja:1:6: the method '" + name + "' is not supported");
  }
  EXPECT_EQ(load_error("{{ '\\ud83d' }}"), "t.jinja:1:4: a string's escape is no character");
  EXPECT_EQ(load_error("\xff"), "t.jinja is not UTF-8");
}

TEST(ChatTemplate, ATemplatesOwnErrorIsTold) {
  EXPECT_EQ(text_of("a\n {{ raise_exception('roles must take turns') }}"),
            "refused: the chat template refuses: roles must take turns (line 2, column 20)");
  EXPECT_EQ(text_of("{{ m.x.y }}", R"({"m": {}})"),
            "refused: the chat template fails: 'x' is undefined (line 1, column 8)");
  EXPECT_EQ(text_of("{{ m.strip() }}", R"({"m": null})"),
            "refused: the chat template fails: 'None' has no attribute 'strip' (line 1, column 11)");
  EXPECT_EQ(text_of("{{ [].append(1) }}"),
            "refused: the chat template fails: 'append' is undefined (line 1, column 13)");
  EXPECT_EQ(text_of("{{ n.real }}", R"({"n": 1})"),
            "refused: the chat template fails: the attribute 'real' of int is not supported (line 1, column 6)");
}

TEST(ChatTemplate, BlocksTakeOfTheStackAsCallsDo) {
  std::string ifs;
  std::string ends;
  for (int i = 0; i < 90; ++i) {
    ifs += "{% if true %}";
    ends += "{% endif %}";
  }
  EXPECT_FALSE(render("{% macro m() %}" + ifs + "{{ m() }}" + ends + "{% endmacro %}{{ m() }}").ok());
  const auto calls = [&](int count) {
    return render(
        fmt::format("{{% macro m(n) %}}{}{{% if n %}}{{{{ m(n - 1) }}}}{{% endif %}}{}{{% endmacro %}}{{{{ m({}) }}}}",
                    ifs, ends, count));
  };
  EXPECT_TRUE(calls(5).ok());
  EXPECT_FALSE(calls(20).ok()) << "20 calls and 1,800 blocks inside each other";
}

TEST(ChatTemplate, WidthsAndStridesAtTheEndsOf64Bits) {
  const std::string least = "-9223372036854775807 - 1";
  EXPECT_EQ(
      render("{{ 'x'.zfill(" + least + ") ~ 'x'.center(" + least + ") ~ 'x'|center(" + least + ") }}").value().text,
      "xxx");
  EXPECT_EQ(render("{{ range(5)[::" + least + "]|list }}").value().text, "[4]");
  EXPECT_EQ(render("{{ range(0, 50, 9)[::9223372036854775807]|list }}").value().text, "[0]");
}

TEST(ChatTemplate, EveryRenderIsBounded) {
  const auto refused = [](const std::string& source) { return !render(source).ok(); };
  EXPECT_TRUE(refused("{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"));
  EXPECT_TRUE(
      refused("{% set ns = namespace(x='ab') %}{% for a in range(60) %}{% set ns.x = ns.x + ns.x %}{% endfor %}"));
  EXPECT_TRUE(refused("{{ 'ab' * 9000000000 }}"));
  EXPECT_TRUE(refused("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}"));
  EXPECT_TRUE(refused("{% set ns = namespace(x=[]) %}{% for a in range(99999) %}{% set ns.x = [ns.x] %}{% endfor %}"));
  EXPECT_TRUE(refused("{% set ns = namespace() %}{% set ns.x = ns %}{{ ns }}"));
  EXPECT_TRUE(refused("{{ '%999999999d' % 1 }}"));
  EXPECT_TRUE(refused("{{ 9223372036854775807 + 1 }}"));
  EXPECT_TRUE(refused("{{ range(100001) }}"));
  for (const char* huge : {"'x' * 10**9",
                           "[0] * 10**9",
                           "(1, 2) * 4000000000",
                           "'x'.center(10**12)",
                           "'x'.ljust(10**12)",
                           "'x'.rjust(10**12)",
                           "'x'.zfill(10**12)",
                           "'%1000000000s' % 'x'",
                           "'%*d' % (10**9, 1)",
                           "'%.1000000000f' % 1.5",
                           "'{:>1000000000}'.format(1)",
                           "'{:.1000000000f}'.format(1.5)",
                           "'{:{}}'.format(1, 10**9)",
                           "'x'|center(10**12)",
                           "'x'|indent(10**12, true)",
                           "[1]|tojson(indent=10**12)",
                           "[1]|batch(10**12, 0)|list",
                           "[1]|slice(10**12)|list",
                           "2 ** 100000000",
                           "(range(100000)|list) * 100000",
                           "range(100000)|join('x' * 100000)",
                           "('x' * 100000).replace('x', 'y' * 100000)",
                           "('x' * 100000).join('y' * 100000)",
                           "'x'|truncate(10**19)",
                           "range(0, 10**12)|sum"}) {
    EXPECT_TRUE(refused(fmt::format("{{{{ {} }}}}", huge))) << huge;
  }
  EXPECT_TRUE(refused("{% for a in range(9999) %}{% for b in range(9999) %}{{ 'x' }}{% endfor %}{% endfor %}"));
  EXPECT_TRUE(refused("{% macro a() %}{{ b() }}{% endmacro %}{% macro b() %}{{ a() }}{% endmacro %}{{ a() }}"));
  EXPECT_TRUE(refused("{% macro a() %}{% call a() %}{% endcall %}{% endmacro %}{{ a() }}"));
  EXPECT_TRUE(refused("{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}"));
  EXPECT_TRUE(
      refused("{% set ns = namespace(x=cycler(1)) %}{% for a in range(999) %}{% set ns.x = cycler(ns.x) %}"
              "{% endfor %}"));
  EXPECT_TRUE(
      refused("{% set ns = namespace(x=1) %}{% for a in range(999) %}{% set ns.x = joiner(ns.x) %}"
              "{% endfor %}"));
  EXPECT_FALSE(load_error(std::string((1 << 20) + 1, 'x')).empty()) << "the source itself";
  EXPECT_FALSE(load_error("{{ " + std::string(100'000, '(') + " }}").empty());
  EXPECT_FALSE(load_error("{{ " + std::string(100'000, '-') + "1 }}").empty());
  std::string chain = "{{ 1";
  for (int i = 0; i < 100'000; ++i)
    chain += "+1";
  EXPECT_FALSE(load_error(chain + " }}").empty());
  std::string blocks;
  for (int i = 0; i < 50'000; ++i)
    blocks += "{% if 1 %}";
  EXPECT_FALSE(load_error(blocks).empty());
}

TEST(ChatTemplate, LookingAtLargeValuesCountsToo) {
  // None of these makes anything; each would take minutes.
  const std::string large =
      "{% set s = 'a' * 10000000 %}{% set t = s ~ '' %}{% set l = range(100000)|list %}"
      "{% set m = l[:] %}{% set d = {1:1, 2:1, 3:1, 4:1, 5:1, 6:1, 7:1, 8:1, 9:1} %}"
      "{% for a in range(100000) %}{% set x = ";
  for (const char* looked : {"s|length",
                             "s == t",
                             "s < t",
                             "s[5000000]",
                             "s[-5000000]",
                             "s|wordcount",
                             "s|int",
                             "s|float",
                             "s.find('b')",
                             "s.rfind('b')",
                             "'b' in s",
                             "s.count('b')",
                             "s.isalpha()",
                             "s is upper",
                             "l == m",
                             "m in [l]",
                             "d[s]",
                             "d.get(s)",
                             "s in d",
                             "{s: 1, 1:1, 2:1, 3:1, 4:1, 5:1, 6:1, 7:1, 8:1}",
                             "[s]|map('length')|list",
                             "[s]|select('upper')|list",
                             "[t, s, t]|max",
                             "[s]|unique|list",
                             "s.replace('b', '')",
                             "(s.strip('ba'))",
                             "d|attr(s)"}) {
    const auto out = render(large + looked + " %}{% endfor %}");
    EXPECT_FALSE(out.ok()) << looked;
  }
  // Long words are found in time that does not multiply.
  const std::string halves = "{% set s = 'a' * 4000000 %}{% set t = 'a' * 2000000 ~ 'b' %}";
  EXPECT_EQ(
      text_of(halves + "{{ s.find(t) }} {{ s.rfind(t) }} {{ t in s }} {{ (s ~ t).find(t) }} {{ (t ~ s).rfind(t) }}"),
      "-1 -1 False 4000000 0");
  // Items that are shared many times over.
  const std::string doubled =
      "{% set ns = namespace(x=(1, 1), y=(1, 1)) %}{% for a in range(60) %}"
      "{% set ns.x = (ns.x, ns.x) %}{% set ns.y = (ns.y, ns.y) %}{% endfor %}";
  for (const char* use : {"ns.x == ns.y", "ns.x < ns.y", "{ns.x: 1}", "[ns.x, ns.y]|unique|list", "ns.x|tojson",
                          "[ns.x, ns.y]|sort", "ns.x in [ns.y]", "ns.x ~ ''"}) {
    EXPECT_FALSE(render(doubled + "{{ " + use + " }}").ok()) << use;
  }
}

TEST(ChatTemplate, ANameThatAFrameSetsFirstIsItsOwnFromTheBeginning) {
  // As jinja2 binds names; what x means to the conversation is not seen by frames inside.
  const std::string x = R"({"x": "given"})";
  EXPECT_EQ(text_of("{% for i in [1] %}{{ x }}{% endfor %}{% set x = 5 %}{{ x }}", x), "5");
  EXPECT_EQ(text_of("{{ x }}{% for i in [1] %}{{ x }}{% endfor %}{% set x = 5 %}{{ x }}", x), "givengiven5");
  EXPECT_EQ(text_of("{% set x %}[{{ x }}]{% endset %}{{ x }}", x), "[]");
  EXPECT_EQ(text_of("{% macro m() %}{{ x }}{% endmacro %}{{ m() }}{% set x = 5 %}{{ m() }}", x), "5");
  EXPECT_EQ(text_of("{% for i in [1] %}{% with %}{{ x }}{% endwith %}{% set x = 5 %}{% endfor %}{{ x }}", x),
            "givengiven");
  EXPECT_EQ(text_of("{% for i in [1] %}{% with %}{{ x }}{% endwith %}{% set x = 5 %}{% endfor %}", x), "");
  EXPECT_EQ(text_of("{% with %}{{ x }}{% endwith %}{% if true %}{% set x = 5 %}{% endif %}{{ x }}", x), "given5");
  EXPECT_EQ(text_of("{% with %}{{ x }}{% endwith %}{% if true %}{% set x = 5 %}{% elif 1 %}{% set x = 6 %}{% else %}"
                    "{% set x = 7 %}{% endif %}{{ x }}",
                    x),
            "given5");
}

TEST(ChatTemplate, ABoolWithAFormatIsANumber) {
  EXPECT_EQ(text_of("{{ '{}|{:^7}|{:>3}|{:+}|{:d}'.format(true, true, false, true, true) }}"), "True|   1   |  0|+1|1");
}

TEST(ChatTemplate, BreakReachesOutOfBlocksButNotOutOfCalls) {
  const auto in_loop = [](const std::string& body) {
    return text_of("{% for i in [1, 2, 3] %}" + body + "{% endfor %}");
  };
  EXPECT_EQ(in_loop("{% set q %}a{% if i == 2 %}{% break %}{% endif %}{% endset %}[{{ q }}]"), "[a]");
  EXPECT_EQ(in_loop("{% set q %}a{% if i == 2 %}{% continue %}{% endif %}{% endset %}[{{ q }}]"), "[a][a]");
  EXPECT_EQ(in_loop("{% filter upper %}a{% if i == 2 %}{% break %}{% endif %}{% endfilter %}[]"), "A[]");
  EXPECT_EQ(in_loop("{% for j in [] %}{% else %}{% if i == 2 %}{% break %}{% endif %}{% endfor %}{{ i }}"), "1");
  EXPECT_NE(load_error("{% for i in [1] %}{% generation %}{% break %}{% endgeneration %}{% endfor %}"), "");
  EXPECT_NE(load_error("{% for i in [1] %}{% for j in [] recursive %}{% else %}{% break %}{% endfor %}{% endfor %}"),
            "");
}

TEST(ChatTemplate, ValuesThatHoldThemselvesAreFreed) {
  // The leak checker of the sanitizers' build sees whether they are.
  EXPECT_EQ(text_of("{% set ns = namespace() %}{% set ns.x = [ns] %}{% macro m() %}{% endmacro %}{% set ns.m = m %}"),
            "");
  EXPECT_EQ(text_of("{% for a in [1] %}{{ loop.changed(loop) }}{% endfor %}"), "True");
}

TEST(ChatTemplate, WhatComesFromValuesIsMarked) {
  const std::string user = R"({"m": {"role": "user", "content": " <|end|> é "}, "n": 7, "l": ["a", "b"]})";
  EXPECT_EQ(marked("<|{{ m.role }}|>{{ m.content }}<|end|>", user), "<|[user]|>[ <|end|> é ]<|end|>");
  EXPECT_EQ(marked("{{ '<s>' + m.content | trim + '</s>' }}", user), "<s>[<|end|> é]</s>");
  EXPECT_EQ(marked("{{ ('<' ~ m.content ~ '>')[1:4] }}", user), "[ <|]");
  EXPECT_EQ(marked("{{ ('ab' ~ m.role ~ 'cd')[::-1] }}", user), "dc[resu]ba");
  EXPECT_EQ(marked("{{ ('x' ~ m.role) | upper }}", user), "X[USER]");
  EXPECT_EQ(marked("{{ l | join('-') }}{{ n }}", user), "[a]-[b]7");
  EXPECT_EQ(marked("{{ {'k': m.role} | tojson }}", user), "{\"k\": \"[user]\"}");
  EXPECT_EQ(marked("{{ [m.role] }}", user), "['[user]']");
  EXPECT_EQ(marked("{{ 'a%sb' % m.role }}{{ 'a{}b'.format(m.role) }}", user), "a[user]ba[user]b");
  EXPECT_EQ(marked("{{ m.content.replace('|', '!') }}", user), "[ <]![end]![> é ]");
  EXPECT_EQ(marked("{{ 'a-b'.replace('-', m.role) }}", user), "a[user]b");
  EXPECT_EQ(marked("{{ (m.role ~ ' x y').split() | join }}", user), "[user]xy");
  EXPECT_EQ(marked("{% set c %}<{{ m.role }}>{% endset %}{{ c }}{{ c | title | indent }}", user), "<[user]><[User]>");
  EXPECT_EQ(marked("{% macro q(x) %}({{ x }}){% endmacro %}{{ q(m.role) }}", user), "([user])");
  EXPECT_EQ(marked("{% for c in 'a' ~ m.role %}{{ c }}{% endfor %}{{ m.role.center(8, '*') }}", user),
            "a[user]**[user]**");
  EXPECT_EQ(marked("{{ m.content | e }}{{ '<' | e }}", user), "[ &lt;|end|&gt; é ]&lt;");
  EXPECT_EQ(marked("{{ m.content | urlencode }}", user), "[%20%3C%7Cend%7C%3E%20%C3%A9%20]");
  EXPECT_EQ(marked("{% set c = cycler('a', m.role) %}{{ c.next() }}{{ c.next() }}{{ c.next() }}", user), "a[user]a");
}

TEST(ChatTemplate, JsonKeepsTheOrderOfKeysAndRefusesWhatDoesNotFit) {
  EXPECT_EQ(text_of("{{ t | tojson }}", R"({"t": {"b": 1, "a": [1.0, true, null, 1e300]}})"),
            R"({"b": 1, "a": [1.0, true, null, 1e+300]})");
  EXPECT_FALSE(parse_json("[18446744073709551615]").ok());
  EXPECT_FALSE(parse_json("[1234567890123456789012345]").ok());
  EXPECT_FALSE(parse_json(std::string(100'000, '[')).ok());
  EXPECT_FALSE(parse_json("{").ok());
}

}  // namespace
}  // namespace krait::chat_template
