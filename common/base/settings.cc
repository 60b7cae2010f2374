#include "common/base/settings.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <exception>
#include <new>

#include "common/base/log.h"
#include "common/base/process.h"
#include "common/base/toml_file.h"

namespace krait {
namespace {

/// The library's reader of configuration files knows neither TOML's rules nor a line's number.
class TomlConfig final : public CLI::Config {
 public:
  explicit TomlConfig(std::shared_ptr<std::vector<TomlEntry>> entries) : entries_(std::move(entries)) {}

  std::string to_config(const CLI::App*, bool, bool, std::string) const override { return ""; }

  std::vector<CLI::ConfigItem> from_config(std::istream& in) const override {
    const auto entries = read_toml(in);
    if (!entries.ok())
      throw CLI::ConfigError(fmt::format("line {}: {}", entries.error().param, entries.error().message));
    *entries_ = *entries;
    std::vector<CLI::ConfigItem> items;
    for (const TomlEntry& entry : *entries)
      items.push_back({{}, entry.key, entry.values});
    return items;
  }

 private:
  const std::shared_ptr<std::vector<TomlEntry>> entries_;
};

/// A line for each option, under the titles of their sections.
class Help final : public CLI::Formatter {
 public:
  std::string make_usage(const CLI::App* /*app*/, std::string name) const override {
    return fmt::format("Usage: {} [options]\n\n", name);
  }
  std::string make_group(std::string title, bool /*is_positional*/,
                         std::vector<const CLI::Option*> options) const override {
    std::string text = fmt::format("{}:\n", title);
    for (const CLI::Option* option : options) {
      const bool takes_a_value = option->get_items_expected_max() > 0;
      text += fmt::format("  {:<28} {}\n", option->get_name() + (takes_a_value ? " " + option->get_type_name() : ""),
                          option->get_description());
    }
    return text;
  }
};

}  // namespace

struct Settings::Parser final {
  CLI::App app;
  std::string section = "Options";
  std::shared_ptr<std::vector<TomlEntry>> entries = std::make_shared<std::vector<TomlEntry>>();

  CLI::Option* named(CLI::Option* option, std::string_view kind, std::string description) const {
    return option->group(section)->type_name(std::string(kind))->description(std::move(description));
  }
  /// The line of the file that sets what an error is about, if it is not the command line that does.
  std::string place_of(std::string_view message, int argc, const char* const* argv) const {
    for (const TomlEntry& entry : *entries) {
      const std::string option = "--" + entry.key;
      const auto names = [&](std::string_view word) { return word == option || word.starts_with(option + "="); };
      const size_t at = message.find(option);
      const bool about = at != message.npos && message.find_first_of(": ", at) == at + option.size();
      if (about && std::none_of(argv + 1, argv + argc, names)) return file_line(entry.line);
    }
    return "";
  }
  std::string file_line(int64_t line) const {
    return fmt::format("{} line {}: ", app.get_config_ptr()->as<std::string>(), line);
  }
};

Settings::Settings(std::string_view program, std::string_view description, std::string_view version)
    : parser_(std::make_unique<Parser>()) {
  constexpr const char* kOwn = "Also";
  auto& app = parser_->app;
  app.name(std::string(program));
  app.description(std::string(description));
  app.formatter(std::make_shared<Help>());
  app.set_help_flag("--help", "this text, and nothing else")->group(kOwn);
  app.set_version_flag("--version", fmt::format("{} {}", program, version), "the version, and nothing else")
      ->group(kOwn);
  app.config_formatter(std::make_shared<TomlConfig>(parser_->entries));
  app.set_config("--config", "", "TOML file with these settings; the command line wins")
      ->type_name("FILE")
      ->group(kOwn);
  app.allow_config_extras(CLI::config_extras_mode::error);
}

Settings::~Settings() = default;

void Settings::section(std::string_view title) {
  parser_->section = title;
}

void Settings::add(std::string_view name, std::string& target, std::string_view help, bool required) {
  const std::string note = required ? " (required)" : target.empty() ? "" : fmt::format(" (default: {})", target);
  parser_->named(parser_->app.add_option(fmt::format("--{}", name), target), "TEXT", fmt::format("{}{}", help, note))
      ->required(required);
}

void Settings::add(std::string_view name, std::vector<std::string>& target, std::string_view help, bool required) {
  parser_
      ->named(parser_->app.add_option(fmt::format("--{}", name), target), "TEXT",
              fmt::format("{}{}", help, required ? " (required)" : ""))
      ->required(required)
      ->allow_extra_args(false);  // one value each time: "--group g0 stray" is a mistake
}

void Settings::add(std::string_view name, int64_t& target, std::string_view help, int64_t least, int64_t most) {
  parser_
      ->named(parser_->app.add_option(fmt::format("--{}", name), target), "N",
              fmt::format("{} ({} to {}; default: {})", help, least, most, target))
      ->check(CLI::Range(least, most).description(""));
}

void Settings::add(std::string_view name, double& target, std::string_view help, double least, double most) {
  parser_
      ->named(parser_->app.add_option(fmt::format("--{}", name), target), "X",
              fmt::format("{} ({} to {}; default: {})", help, least, most, target))
      ->check(CLI::Range(least, most).description(""))
      ->check([](const std::string& text) {
        // No comparison with a NaN holds, so it passes every range.
        double value = 0;
        const bool finite = CLI::detail::lexical_cast(text, value) && std::isfinite(value);
        return finite ? std::string() : fmt::format("{} is not a finite number", text);
      });
}

void Settings::add_choice(std::string_view name, std::string& target, std::string_view help,
                          const std::vector<std::string>& choices) {
  parser_
      ->named(parser_->app.add_option(fmt::format("--{}", name), target), "NAME",
              fmt::format("{} ({}; default: {})", help, fmt::join(choices, ", "), target))
      ->check(CLI::IsMember(choices).description(""));
}

void Settings::add_flag(std::string_view name, bool& target, std::string_view help) {
  parser_->app.add_flag(fmt::format("--{}", name), target, std::string(help))->group(parser_->section);
}

Result<bool> Settings::parse(int argc, const char* const* argv) {
  try {
    parser_->app.parse(argc, argv);
    return true;
  } catch (const CLI::Success& done) {
    parser_->app.exit(done);
    return false;
  } catch (const CLI::ConfigError& error) {
    // The library calls every file an INI file that it "was not able to parse", when a key is not known.
    constexpr std::string_view kUnknown = "INI was not able to parse ";
    const std::string what = error.what();
    const std::string key = what.starts_with(kUnknown) ? what.substr(kUnknown.size()) : "";
    for (const TomlEntry& entry : *parser_->entries) {
      if (entry.key != key) continue;
      return Error{Errc::kInvalidArgument, fmt::format("{}'{}' is unknown", parser_->file_line(entry.line), key),
                   "config"};
    }
    return Error{Errc::kInvalidArgument, fmt::format("{} {}", parser_->app.get_config_ptr()->as<std::string>(), what),
                 "config"};
  } catch (const CLI::ParseError& error) {
    const std::string what = error.what();
    return Error{Errc::kInvalidArgument, parser_->place_of(what, argc, argv) + what, ""};
  } catch (const std::exception& error) {
    return Error{Errc::kInvalidArgument, error.what(), "config"};
  }
}

int run_program(std::string_view program, const Result<bool>& parsed, const std::function<Status()>& serve) {
  if (!parsed.ok()) {
    fmt::print(stderr, "{}: {}\n", program, parsed.error().message);
    return 2;
  }
  if (!*parsed) return 0;
  install_last_words();
  try {
    const Status status = serve();
    if (status.ok()) return 0;
    log_error("stopped: {}", to_string(status.error()));
  } catch (const std::bad_alloc&) {
    log_error("stopped: out of memory");
  } catch (const std::exception& error) {
    log_error("stopped: {}", error.what());
  }
  return 1;
}

}  // namespace krait
