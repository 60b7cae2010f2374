// The served description of the API against the tables that the server reads requests by.
#include "coordinator/api/openapi.h"

#include "coordinator/api/request_tables.h"
#include "tests/unit/coordinator/api/api_fixture.h"

namespace krait::api {
namespace {

using nlohmann::ordered_json;

ApiOptions options_of(ModelInfo model) {
  ApiOptions options;
  options.model = std::move(model);
  return options;
}

/// The schema of one field of an endpoint's body.
ordered_json field(const ordered_json& document, const std::string& operation, std::string_view name) {
  const auto& properties = document.at("components").at("schemas").at(operation + "_request").at("properties");
  EXPECT_TRUE(properties.contains(name)) << operation << " " << name;
  return properties.value(std::string(name), ordered_json());
}

TEST(OpenApi, HasEveryEndpoint) {
  const auto document = openapi_document(options_of(demo_info()));
  size_t count = 0;
#define ENDPOINT(method, path, handler, ...)                                         \
  {                                                                                  \
    std::string name(method);                                                        \
    std::transform(name.begin(), name.end(), name.begin(), ::tolower);               \
    ASSERT_TRUE(document["paths"].contains(path)) << path;                           \
    EXPECT_EQ(document["paths"][path][name]["operationId"], #handler) << path;       \
    EXPECT_TRUE(document["paths"][path][name]["responses"].contains("200")) << path; \
    ++count;                                                                         \
  }
#include "coordinator/api/endpoints.def"
#undef ENDPOINT
  EXPECT_EQ(document["paths"].size(), count);
}

TEST(OpenApi, HasEveryFieldWithItsRangeAndDefault) {
  const auto document = openapi_document(options_of(demo_info()));
  const std::map<std::string, std::span<const FieldSpec>> tables = {{"completions", kCompletionFields},
                                                                    {"chat_completions", kChatFields},
                                                                    {"tokenize", kTokenizeFields},
                                                                    {"detokenize", kDetokenizeFields}};
  for (const auto& [operation, table] : tables) {
    for (const FieldSpec& spec : table) {
      const auto schema = field(document, operation, spec.name);
      if (spec.use == FieldUse::kUsed && !spec.values.empty()) {
        EXPECT_EQ(schema["default"], ordered_json::parse(spec.values)) << spec.name;
      }
      if (spec.type == FieldType::kInteger || spec.type == FieldType::kNumber) {
        EXPECT_EQ(schema["minimum"].get<double>(), spec.least) << spec.name;
        EXPECT_EQ(schema["maximum"].get<double>(), spec.most) << spec.name;
      }
      if (spec.use == FieldUse::kUsed) {
        EXPECT_NE(schema.dump().find("null"), std::string::npos) << spec.name;
      }
    }
    const auto& schema = document["components"]["schemas"][operation + "_request"];
    EXPECT_EQ(schema["properties"].size(), table.size());
    EXPECT_EQ(schema["additionalProperties"], true);
  }
  EXPECT_EQ(document["components"]["schemas"]["completions_request"]["required"], ordered_json({"prompt"}));
  EXPECT_EQ(document["components"]["schemas"]["chat_completions_request"]["required"], ordered_json({"messages"}));
  EXPECT_EQ(field(document, "completions", "max_tokens")["default"], 16);
  EXPECT_EQ(field(document, "chat_completions", "max_tokens")["default"], 2048);
}

TEST(OpenApi, EveryStreamHasASchemaOfItsChunks) {
  const auto document = openapi_document(options_of(demo_info()));
  for (const char* path : {"/v1/completions", "/v1/chat/completions"}) {
    const auto& good = document["paths"][path]["post"]["responses"]["200"];
    ASSERT_TRUE(good["content"].contains("text/event-stream")) << path;
    const auto whole = good["content"]["application/json"]["schema"]["$ref"].get<std::string>();
    const std::string chunk = whole.substr(whole.rfind('/') + 1) + "Chunk";
    EXPECT_NE(good["description"].get<std::string>().find(" " + chunk + ","), std::string::npos) << path;
    EXPECT_TRUE(document["components"]["schemas"].contains(chunk)) << path;
  }
}

TEST(OpenApi, FollowsModelAndOptions) {
  auto options = options_of(demo_info());
  options.strict_fields = true;
  options.api_keys = {"secret"};
  const auto document = openapi_document(options);
  EXPECT_EQ(field(document, "completions", "model")["enum"], ordered_json({"demo", nullptr}));
  EXPECT_EQ(field(document, "detokenize", "tokens")["items"]["maximum"], demo_info().vocab_size - 1);
  EXPECT_EQ(field(document, "completions", "suffix")["enum"], ordered_json({nullptr, ""}));
  EXPECT_EQ(document["components"]["schemas"]["completions_request"]["additionalProperties"], false);
  EXPECT_TRUE(document["paths"]["/v1/models"]["get"].contains("security"));
  EXPECT_FALSE(document["paths"]["/health"]["get"].contains("security"));
  EXPECT_EQ(document.dump().find("secret"), std::string::npos);
  const auto ids_only = openapi_document(options_of(info_without_tokenizer()));
  EXPECT_EQ(field(ids_only, "completions", "prompt").dump().find("string"), std::string::npos);
}

TEST(OpenApi, EveryReferenceLeadsSomewhere) {
  const auto document = openapi_document(options_of(demo_info()));
  const std::string text = document.dump();
  size_t count = 0;
  for (size_t at = text.find("\"#/"); at != std::string::npos; at = text.find("\"#/", at + 1)) {
    const std::string pointer = text.substr(at + 2, text.find('"', at + 1) - at - 2);
    EXPECT_TRUE(document.contains(ordered_json::json_pointer(pointer))) << pointer;
    ++count;
  }
  EXPECT_GT(count, 50u);
}

TEST_F(ApiFixture, OpenApiIsServedWithoutAKey) {
  ApiOptions options;
  options.api_keys = {"k"};
  start(std::move(options), false);
  const auto answer = get("/openapi.json");
  EXPECT_EQ(answer->status(), 200);
  EXPECT_EQ(answer->header("Content-Type"), "application/json");
  EXPECT_EQ(answer->json()["openapi"], "3.1.0");
}

}  // namespace
}  // namespace krait::api
