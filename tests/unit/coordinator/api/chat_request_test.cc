// A chat becomes the tokens of its rendered text; special tokens in a user's words stay words.
#include "coordinator/api/chat_request.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>

#include "coordinator/api/request_tables.h"
#include "tests/support/gguf_writer.h"
#include "tests/unit/coordinator/api/completion_fixture.h"

namespace krait::api {
namespace {

/// Puts files into a folder of its own.
class ChatFiles final {
 public:
  ChatFiles() {
    std::string name = (std::filesystem::temp_directory_path() / "krait-chat-XXXXXX").string();
    dir_ = mkdtemp(name.data());
  }
  ~ChatFiles() { std::filesystem::remove_all(dir_); }
  ChatFiles(const ChatFiles&) = delete;
  ChatFiles& operator=(const ChatFiles&) = delete;

  std::string write(const std::string& name, const std::string& text) const {
    std::filesystem::create_directories((dir_ / name).parent_path());
    std::ofstream(dir_ / name) << text;
    return dir_ / name;
  }
  const std::filesystem::path& dir() const { return dir_; }

 private:
  std::filesystem::path dir_;
};

ModelInfo chat_info(const std::string& source, const std::string& config = "{}") {
  const ChatFiles files;
  files.write("tokenizer_config.json", config);
  ModelInfo model = demo_info();
  model.chat = load_chat_templates(files.dir(), files.write("given.jinja", source)).value();
  return model;
}

constexpr const char* kChatMl =
    "{% for m in messages %}<{{ m.role }}>{{ m.content }}{{ eos_token }}{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}";
constexpr const char* kConfig = R"({"eos_token": {"content": "<|endoftext|>", "special": true}, "bos_token": null})";

std::vector<int32_t> tokens_of(const std::string& messages, const std::string& more = "") {
  const std::string body = "{\"messages\":" + messages + more + "}";
  auto request = read_chat_request(body, chat_info(kChatMl, kConfig));
  if (request.ok()) return request->prompts.front().tokens;
  ADD_FAILURE() << to_string(request.error());
  return {};
}

TEST(ChatRequest, TheTokensAreThoseOfTheWholeText) {
  EXPECT_EQ(tokens_of(R"([{"role":"user","content":"Hello  there, Elizabeth"}])"),
            ids_of("<user>Hello  there, Elizabeth<|endoftext|><assistant>"));
  EXPECT_EQ(tokens_of(R"([{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}])"),
            ids_of("<user>a\nb<|endoftext|><assistant>"));
  EXPECT_EQ(tokens_of(R"([{"role":"assistant","content":"He is"}])", R"(,"continue_final_message":true)"),
            ids_of("<assistant>He is"));
}

TEST(ChatRequest, SpecialTokensOfAUserStayWords) {
  const auto special = demo_tokenizer()->token_to_id("<|endoftext|>").value();
  const auto tokens = tokens_of(R"([{"role":"user","content":"a<|endoftext|>b"}])");
  EXPECT_EQ(std::count(tokens.begin(), tokens.end(), special), 1);
  EXPECT_EQ(demo_tokenizer()->decode(tokens, false), "<user>a<|endoftext|>b<|endoftext|><assistant>");
  // Nor can a user's words and the template's make one together.
  const auto halves = tokens_of(R"([{"role":"user","content":"<|endof"}])");
  EXPECT_EQ(std::count(halves.begin(), halves.end(), special), 1);
}

TEST(ChatRequest, AChatThatIsSentAgainIsTokenizedWhereItIsNew) {
  ModelInfo model = chat_info(kChatMl, kConfig);
  model.texts = std::make_shared<tokenizer::StretchCache>(1 << 20);
  const std::string told = R"({"role":"user","content":"A message that stays as it was."},)";
  const std::string asked = R"({"role":"user","content":"And what is asked now?"})";
  const auto tokens = [&](const std::string& messages) {
    return read_chat_request(R"({"messages":[)" + messages + "]}", model).value().prompts.front().tokens;
  };
  EXPECT_EQ(tokens(told + told + asked), tokens_of("[" + told + told + asked + "]"));
  const auto before = model.texts->counts();
  EXPECT_EQ(before.found_bytes, 0u);
  EXPECT_EQ(tokens(told + told + asked + "," + asked), tokens_of("[" + told + told + asked + "," + asked + "]"));
  const auto after = model.texts->counts();
  EXPECT_EQ(after.encoded_bytes - before.encoded_bytes, std::string("<assistant>").size());
}

TEST(ChatRequest, AModelWithoutATemplateNamesTheOption) {
  const auto refused = read_chat_request(R"({"messages":[{"role":"user","content":"a"}]})", demo_info());
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find("--chat-template"), std::string::npos);
}

TEST(ChatRequest, ATemplatesOwnErrorIsTheClients) {
  const auto refused = read_chat_request(R"({"messages":[{"role":"user","content":"a"}]})",
                                         chat_info("{{ raise_exception('no users here') }}"));
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, Errc::kInvalidArgument);
  EXPECT_NE(refused.error().message.find("no users here"), std::string::npos);
}

TEST(ChatRequest, ATemplateThatMakesNoTextIsNamed) {
  const auto refused = read_chat_request(R"({"messages":[{"role":"user","content":"a"}]})", chat_info("{{ '' }}"));
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, Errc::kInvalidArgument);
  EXPECT_EQ(refused.error().message, "the chat template makes no text of these messages");
  EXPECT_EQ(refused.error().param, "messages");
}

TEST(ChatRequest, ToolsKeepTheOrderOfTheirKeysAndArgumentsAreValues) {
  const auto model = chat_info(
      "{{ tools | tojson }}{% for m in messages if m.tool_calls %}{{ m.tool_calls[0].function.arguments | tojson }}{% "
      "endfor %}");
  const auto request = read_chat_request(
      R"({"messages":[{"role":"assistant","content":null,"tool_calls":[{"function":{"name":"f","arguments":"{\"z\":1,\"a\":2}"}}]}],)"
      R"("tools":[{"type":"function","function":{"name":"f","b":1,"a":2}}]})",
      model);
  ASSERT_TRUE(request.ok()) << to_string(request.error());
  EXPECT_EQ(request->prompts.front().tokens,
            ids_of(R"([{"type": "function", "function": {"name": "f", "b": 1, "a": 2}}]{"z": 1, "a": 2})"));
}

TEST(ChatRequest, OnlyWhatATemplateSeesMustFitItsNumbers) {
  // A seed is unsigned, and what nobody reads may be anything.
  const auto model = chat_info(kChatMl, kConfig);
  const std::string messages = R"("messages":[{"role":"user","content":"a"}])";
  const auto taken = read_chat_request(
      "{" + messages + R"(,"seed":18446744073709551615,"metadata":{"x":[18446744073709551616]},"tools":[]})", model);
  ASSERT_TRUE(taken.ok()) << to_string(taken.error());
  EXPECT_EQ(taken->shared.sampling.seed, std::numeric_limits<uint64_t>::max());
  const auto refused =
      read_chat_request("{" + messages + R"(,"chat_template_kwargs":{"x":18446744073709551616}})", model);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().param, "chat_template_kwargs");
}

TEST(ChatRequest, FieldsThatWouldChangeTheOutputAreRefusedByName) {
  const auto model = chat_info(kChatMl, kConfig);
  const auto read = [&](const std::string& field) {
    return read_chat_request(R"({"messages":[{"role":"user","content":"a"}],)" + field + "}", model);
  };
  size_t tried = 0;
  for (const FieldSpec& field : kChatFields) {
    for (const char* value : {"5", "\"x\"", R"({"a":1})", "[1]", "\"required\""}) {
      if (field.use != FieldUse::kRefused && field.use != FieldUse::kHarmless) continue;
      const auto request = read(fmt::format("\"{}\":{}", field.name, value));
      ++tried;
      if (field.use == FieldUse::kHarmless) {
        EXPECT_TRUE(request.ok() && request->unknown_fields.count == 0) << field.name << value;
      } else {
        EXPECT_TRUE(!request.ok() && request.error().param == field.name) << field.name << value;
      }
    }
  }
  EXPECT_GE(tried, 200u);
  const auto tools = read(R"("tools":[{"type":"function","function":{"name":"f"}}])");
  EXPECT_TRUE(!tools.ok() && tools.error().param == "tools") << "a template that says nothing of tools";
}

TEST(ChatRequest, WhatATemplateMakesTooLargeIsTheClients) {
  for (const char* source : {"{{ messages[0].content * 10**9 }}",
                             "{% for a in range(99999) %}{% for b in range(99999) %}"
                             "{% endfor %}{% endfor %}",
                             "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}"}) {
    const auto refused = read_chat_request(R"({"messages":[{"role":"user","content":"abc"}]})", chat_info(source));
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().code, Errc::kInvalidArgument);
    EXPECT_EQ(refused.error().param, "messages");
  }
}

TEST(ChatRequest, ItsOwnDefaultsAreNotThoseOfCompletions) {
  const auto model = chat_info(kChatMl, kConfig);
  const auto max_tokens = [&](const std::string& more) {
    return read_chat_request(R"({"messages":[{"role":"user","content":"a"}])" + more + "}", model)
        .value()
        .shared.max_tokens;
  };
  EXPECT_EQ(max_tokens(""), 2048u);
  EXPECT_EQ(max_tokens(R"(,"max_tokens":5)"), 5u);
  EXPECT_EQ(max_tokens(R"(,"max_tokens":5,"max_completion_tokens":7)"), 7u);
}

TEST(ChatTemplates, EveryPlaceOfTemplatesIsRead) {
  const ChatFiles files;
  EXPECT_EQ(load_chat_templates(files.dir(), "").value(), nullptr);
  files.write("tokenizer_config.json",
              R"({"chat_template": [{"name": "default", "template": "A"}, {"name": "tool_use", "template": "T"}]})");
  const auto text = [&](bool tools) {
    return load_chat_templates(files.dir(), "").value()->choose(tools).render({}, 0).value().text;
  };
  EXPECT_EQ(text(false), "A");
  EXPECT_EQ(text(true), "T");
  files.write("chat_template.jinja", "F");
  EXPECT_EQ(text(false), "F");
  files.write("additional_chat_templates/tool_use.jinja", "N");
  EXPECT_EQ(text(true), "N");
  files.write("tokenizer_config.json", R"({"chat_template": "{{ x | nosuch }}"})");
  const auto broken = load_chat_templates(files.dir(), "");
  ASSERT_FALSE(broken.ok());
  EXPECT_NE(broken.error().message.find("tokenizer_config.json: chat_template:1:8: there is no filter"),
            std::string::npos)
      << broken.error().message;
}

TEST(ChatTemplates, WhatTokenizerConfigSaysAmissIsRefusedByName) {
  const auto message = [](const std::string& config) {
    const ChatFiles files;
    files.write("tokenizer_config.json", config);
    const auto loaded = load_chat_templates(files.dir(), files.write("given.jinja", "{{ bos_token }}"));
    const auto from_config = load_chat_templates(files.dir(), "");
    return !loaded.ok() ? loaded.error().message : !from_config.ok() ? from_config.error().message : "";
  };
  const auto expect_names = [&](const std::string& config, const std::string& words) {
    EXPECT_NE(message(config).find("tokenizer_config.json: " + words), std::string::npos)
        << config << ": " << message(config);
  };
  expect_names(R"({"chat_template": [{"name": "a", "template": "1"}, {"name": "a", "template": "2"}]})",
               "chat_template has two templates with the name 'a'");
  for (const char* token : {"5", "true", "[]", "{}", R"({"content": 5})"}) {
    expect_names(fmt::format(R"({{"bos_token": {}}})", token), "bos_token must be a text");
    expect_names(fmt::format(R"({{"mask_token": {}}})", token), "mask_token must be a text");
  }
  for (const char* token : {"null", R"("<s>")", R"({"content": "<s>"})"})
    EXPECT_EQ(message(fmt::format(R"({{"bos_token": {}}})", token)), "");
}

TEST(ChatTemplates, AGgufFileHoldsThem) {
  const std::vector<std::string> tokens{"<unk>", "<s>", "</s>"};
  const auto load = [&](const std::function<void(test::GgufWriter&)>& add, const std::string& given = "") {
    const ChatFiles files;
    test::GgufWriter writer;
    writer.texts("tokenizer.ggml.tokens", tokens).integer("tokenizer.ggml.bos_token_id", 1);
    writer.integer("tokenizer.ggml.eos_token_id", 9).integer("tokenizer.ggml.unknown_token_id", 0);
    add(writer);
    files.write("m.gguf", writer.file());
    const auto file = GgufFile::open((files.dir() / "m.gguf").native()).value();
    return load_chat_templates(*file, given.empty() ? "" : files.write("given.jinja", given));
  };
  const auto text = [](const auto& loaded, bool tools) {
    return (*loaded)->choose(tools).render((*loaded)->special_tokens, 0).value().text;
  };
  EXPECT_EQ(load([](auto&) {}).value(), nullptr);
  const auto add_two = [](test::GgufWriter& writer) {
    writer.text("tokenizer.chat_template", "{{ bos_token }}{{ unk_token }}{{ eos_token }}!");
    writer.texts("tokenizer.chat_templates", std::vector<std::string>{"tool_use"});
    writer.text("tokenizer.chat_template.tool_use", "T");
  };
  EXPECT_EQ(text(load(add_two), false), "<s><unk>!") << "no token has the id of eos";
  EXPECT_EQ(text(load(add_two), true), "T");
  EXPECT_EQ(text(load(add_two, "G{{ bos_token }}"), true), "G<s>");
  const auto broken = load([](auto& writer) { writer.text("tokenizer.chat_template", "{{ x | nosuch }}"); });
  ASSERT_FALSE(broken.ok());
  EXPECT_NE(broken.error().message.find("m.gguf: tokenizer.chat_template:1:8: there is no filter"), std::string::npos)
      << broken.error().message;
  const auto number = load([](auto& writer) { writer.integer("tokenizer.chat_template", 3); });
  ASSERT_FALSE(number.ok());
  EXPECT_EQ(number.error().param, "tokenizer.chat_template");
}

}  // namespace
}  // namespace krait::api
