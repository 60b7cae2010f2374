#include "tests/unit/common/metrics/text_format.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <optional>
#include <set>

namespace krait::metrics::test {
namespace {

bool is_name(std::string_view name, bool colons) {
  if (name.empty() || (name[0] >= '0' && name[0] <= '9')) return false;
  for (const char c : name) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
    if (!letter && !(c >= '0' && c <= '9') && !(colons && c == ':')) return false;
  }
  return true;
}

std::optional<double> number(std::string_view text) {
  if (text == "+Inf") return INFINITY;
  if (text == "-Inf") return -INFINITY;
  if (text == "NaN" || text == "Nan") return NAN;
  if (text.empty() || std::string_view("+-.0123456789").find(text[0]) == std::string_view::npos) return std::nullopt;
  const std::string copy(text);
  char* end = nullptr;
  const double value = std::strtod(copy.c_str(), &end);
  if (*end != '\0' || !std::isfinite(value)) return std::nullopt;
  return value;
}

using Labels = std::map<std::string, std::string>;

/// Takes `{a="b",...}` off the front of `rest`.
bool take_labels(std::string_view& rest, Labels& labels) {
  if (rest.empty() || rest[0] != '{') return true;
  rest.remove_prefix(1);
  while (!rest.empty() && rest[0] != '}') {
    const size_t equals = rest.find("=\"");
    if (equals == std::string_view::npos || !is_name(rest.substr(0, equals), false)) return false;
    const std::string name(rest.substr(0, equals));
    rest.remove_prefix(equals + 2);
    std::string value;
    while (!rest.empty() && rest[0] != '"') {
      if (rest[0] == '\\') {
        if (rest.size() < 2 || std::string_view("\\\"n").find(rest[1]) == std::string_view::npos) return false;
        value += rest[1] == 'n' ? '\n' : rest[1];
        rest.remove_prefix(2);
      } else {
        value += rest[0];
        rest.remove_prefix(1);
      }
    }
    if (rest.empty() || !labels.emplace(name, value).second) return false;
    rest.remove_prefix(1);
    if (!rest.empty() && rest[0] == ',') rest.remove_prefix(1);
  }
  if (rest.empty()) return false;
  rest.remove_prefix(1);
  return true;
}

std::string series_key(const std::string& name, const Labels& labels) {
  std::string key = name + "{";
  for (const auto& [label, value] : labels)
    key += label + "=\"" + value + "\",";
  return key + "}";
}

class Reader final {
 public:
  Exposition read(const std::string& text) {
    if (!text.empty() && text.back() != '\n') fail("the last line does not end");
    size_t start = 0;
    while (start < text.size() && result_.fault.empty()) {
      const size_t end = std::min(text.find('\n', start), text.size());
      ++line_number_;
      line(std::string_view(text).substr(start, end - start));
      start = end + 1;
    }
    if (result_.fault.empty()) check_histograms();
    return std::move(result_);
  }

 private:
  struct Buckets final {
    std::map<double, double> at;
    std::optional<double> count;
    bool sum = false;
  };

  void fail(const std::string& what) {
    if (result_.fault.empty()) result_.fault = fmt::format("line {}: {}", line_number_, what);
  }

  void line(std::string_view text) {
    if (text.empty()) return;
    if (text.starts_with("# HELP ") || text.starts_with("# TYPE ")) return comment(text.substr(2, 4), text.substr(7));
    if (text[0] == '#') return;
    sample(text);
  }

  void comment(std::string_view kind, std::string_view rest) {
    const size_t space = rest.find(' ');
    const std::string name(rest.substr(0, space));
    if (space == std::string_view::npos || !is_name(name, true)) return fail("no name");
    enter(name);
    if (kind == "HELP") {
      if (!result_.helps.emplace(name, rest.substr(space + 1)).second) fail("a second HELP of " + name);
      return;
    }
    const std::string type(rest.substr(space + 1));
    if (type != "counter" && type != "gauge" && type != "histogram") return fail("type " + type);
    if (sampled_.contains(name)) return fail("TYPE after samples of " + name);
    if (!result_.types.emplace(name, type).second) fail("a second TYPE of " + name);
  }

  /// A family's lines are in one piece.
  void enter(const std::string& family) {
    if (family == current_) return;
    if (!seen_.insert(family).second) fail("lines of " + family + " in two places");
    current_ = family;
  }

  void sample(std::string_view text) {
    const size_t name_end = text.find_first_of("{ ");
    const std::string name(text.substr(0, name_end));
    if (name_end == std::string_view::npos || !is_name(name, true)) return fail("no name");
    std::string_view rest = text.substr(name_end);
    Labels labels;
    if (!take_labels(rest, labels)) return fail("labels");
    if (rest.size() < 2 || rest[0] != ' ') return fail("no space before the value");
    const std::optional<double> value = number(rest.substr(1));
    if (!value) return fail("value " + std::string(rest.substr(1)));
    if (!result_.samples.emplace(series_key(name, labels), *value).second) return fail("a series twice");

    const std::string family = family_of(name);
    enter(family);
    sampled_.insert(family);
    const auto type = result_.types.find(family);
    if (type == result_.types.end()) return fail(name + " has no TYPE");
    if (type->second == "counter" && !(*value >= 0 && std::isfinite(*value))) return fail("counter value");
    if (type->second == "histogram") bucket(name, family, labels, *value);
  }

  std::string family_of(const std::string& name) const {
    for (const std::string suffix : {"_bucket", "_count", "_sum"}) {
      if (!name.ends_with(suffix)) continue;
      const std::string family = name.substr(0, name.size() - suffix.size());
      if (const auto type = result_.types.find(family); type != result_.types.end() && type->second == "histogram") {
        return family;
      }
    }
    return name;
  }

  void bucket(const std::string& name, const std::string& family, Labels labels, double value) {
    if (name == family) return fail("a histogram's sample without a suffix");
    if (name.ends_with("_bucket")) {
      const double bound = number(labels["le"]).value_or(NAN);
      if (std::isnan(bound)) return fail("a bucket without le");
      labels.erase("le");
      buckets_[series_key(family, labels)].at[bound] = value;
      return;
    }
    if (labels.contains("le")) return fail("le outside a bucket");
    Buckets& of = buckets_[series_key(family, labels)];
    if (name.ends_with("_count")) of.count = value;
    if (name.ends_with("_sum")) of.sum = true;
  }

  void check_histograms() {
    for (const auto& [key, buckets] : buckets_) {
      double last = 0;
      for (const auto& [bound, value] : buckets.at) {
        if (value < last) fail("buckets of " + key + " fall");
        last = value;
      }
      if (!buckets.count || !buckets.sum) fail(key + " lacks _count or _sum");
      if (!buckets.at.contains(INFINITY) || buckets.at.at(INFINITY) != buckets.count)
        fail(key + ": +Inf is not _count");
    }
  }

  Exposition result_;
  int line_number_ = 0;
  std::string current_;
  std::set<std::string> seen_, sampled_;
  std::map<std::string, Buckets> buckets_;
};

}  // namespace

Exposition read_text_format(const std::string& text) {
  return Reader().read(text);
}

namespace {

TEST(TextFormat, ReadsWhatIsRight) {
  const Exposition read = read_text_format(
      "# HELP a_total Of a\n# TYPE a_total counter\na_total{x=\"1\\\"\\\\\\n\",y=\"\"} 3\na_total{x=\"2\",y=\"\"} "
      "4.5e1\n"
      "# TYPE h histogram\nh_bucket{le=\"1\"} 2\nh_bucket{le=\"+Inf\"} 3\nh_sum 4\nh_count 3\n");
  EXPECT_EQ(read.fault, "");
  EXPECT_EQ(read.types.at("a_total"), "counter");
  EXPECT_EQ(read.helps.at("a_total"), "Of a");
  EXPECT_EQ(read.samples.at("a_total{x=\"2\",y=\"\",}"), 45);
  EXPECT_EQ(read.samples.at("h_count{}"), 3);
}

TEST(TextFormat, FindsWhatIsWrong) {
  for (const char* text : {
           "# TYPE a counter\na 1",                                              // no end of line
           "# TYPE a counter\na x\n",                                            // no number
           "# TYPE a counter\na  1\n",                                           // two spaces
           "# TYPE a counter\na 1\na 1\n",                                       // twice
           "# TYPE a counter\na -1\n",                                           // falls
           "# TYPE a counter\n# TYPE a counter\na 1\n",                          // two types
           "# TYPE a thing\na 1\n",                                              // no type
           "a 1\n",                                                              // no type
           "# TYPE a counter\na{x=1} 1\n",                                       // no quotes
           "# TYPE a counter\na{x=\"1} 1\n",                                     // open quote
           "# TYPE a counter\na{x=\"\\q\"} 1\n",                                 // escape
           "# TYPE a counter\na{x=\"1\",x=\"2\"} 1\n",                           // label twice
           "# TYPE a counter\na 1\n# TYPE b counter\nb 1\na{x=\"1\"} 1\n",       // two places
           "# TYPE 1a counter\n",                                                // name
           "# TYPE h histogram\nh_bucket{le=\"1\"} 2\nh_sum 1\nh_count 2\n",     // no +Inf
           "# TYPE h histogram\nh_bucket{le=\"+Inf\"} 2\nh_sum 1\nh_count 3\n",  // +Inf unlike count
           "# TYPE h histogram\nh_bucket{le=\"1\"} 3\nh_bucket{le=\"+Inf\"} 2\nh_sum 1\nh_count 2\n",  // falls
       }) {
    EXPECT_NE(read_text_format(text).fault, "") << text;
  }
}

}  // namespace
}  // namespace krait::metrics::test
