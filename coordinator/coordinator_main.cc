// krait-coordinator: REST in, tokens out.
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <set>
#include <thread>

#include "common/base/clock.h"
#include "common/base/limits.h"
#include "common/base/log.h"
#include "common/base/process.h"
#include "common/base/rng.h"
#include "common/base/settings.h"
#include "common/base/version.h"
#include "common/metrics/exposition.h"
#include "common/metrics/registry.h"
#include "common/transport/zmq_transport.h"
#include "common/weights/checkpoint.h"
#include "common/weights/model_place.h"
#include "common/wire/addresses.h"
#include "coordinator/api/api.h"
#include "coordinator/api/coordinator_metrics.h"
#include "coordinator/http/http_server.h"
#include "coordinator/requests/cluster_client.h"
#include "coordinator/tokenizer/model_tokenizer.h"

namespace krait {
namespace {

/// Time for answers that are complete to leave.
constexpr int64_t kLastAnswersNs = 2 * kSecond;

struct Options final {
  std::string host = "127.0.0.1";
  int64_t port = 8000;
  int64_t http_threads = 1;
  int64_t api_threads = 2;
  std::string metrics_host = "127.0.0.1";
  int64_t metrics_port = 0;
  std::string run_dir;
  std::vector<std::string> groups;
  std::string model;
  std::string served_model_name;
  std::string tokenizer;
  std::string chat_template;
  std::string api_key_file;
  bool strict_fields = false;
  double request_timeout_s = 600;
  double drain_seconds = 30;
  int64_t max_body_bytes = limits::kMaxBodyBytes;
  int64_t text_cache_mib = 64;
  int64_t watch_parent_pid = 0;
};

/// What each option alone cannot know.
Status check_options(const Options& options) {
  RETURN_IF_ERROR(wire::check_run_dir(options.run_dir));
  std::set<std::string> names;
  for (const auto& group : options.groups) {
    RETURN_IF_ERROR(wire::check_group_name(group));
    if (!names.insert(group).second) {
      return Error{Errc::kInvalidArgument, fmt::format("--group: '{}' stands twice", group), "group"};
    }
  }
  return {};
}

Result<bool> read_options(int argc, char** argv, Options& options) {
  Settings settings("krait-coordinator", "The REST API of a cluster.", version());
  settings.section("Addresses");
  settings.add("host", options.host, "address of the API");
  settings.add("port", options.port, "port of the API; 0 picks one", 0, 65'535);
  settings.add("metrics-host", options.metrics_host, "address of /metrics");
  settings.add("metrics-port", options.metrics_port, "port of /metrics; 0 picks one", 0, 65'535);
  settings.add("run-dir", options.run_dir, "folder of the groups' sockets", true);
  settings.add("group", options.groups, "name of a group (may stand several times)", true);
  settings.section("Model");
  settings.add("model", options.model, "a folder, a GGUF file, or org/name in Hugging Face's cache", true);
  settings.add("served-model-name", options.served_model_name, "name clients use; the model's own if empty");
  settings.add("tokenizer", options.tokenizer, "another tokenizer.json");
  settings.add("chat-template", options.chat_template, "a Jinja file in place of the model's own chat template");
  settings.section("Requests");
  settings.add("api-key-file", options.api_key_file, "file with one API key a line; none: no key is asked for");
  settings.add_flag("strict-fields", options.strict_fields, "refuse request fields that are not known");
  settings.add("request-timeout", options.request_timeout_s, "seconds that a request may take", 0.001, 86'400);
  settings.add("max-body-bytes", options.max_body_bytes, "largest request body", 1, limits::kMaxWireMessageBytes);
  settings.add("text-cache-mib", options.text_cache_mib, "memory for texts tokenized lately: a chat's earlier turns", 0,
               65'536);
  settings.section("Process");
  settings.add("http-threads", options.http_threads, "threads for sockets", 1, limits::kMaxThreads);
  settings.add("api-threads", options.api_threads, "threads for JSON and tokenization", 1, limits::kMaxThreads);
  settings.add("drain-seconds", options.drain_seconds, "time for open requests to end after SIGTERM", 0, 86'400);
  settings.add("watch-parent-pid", options.watch_parent_pid, "stop when this parent process is gone", 0, INT32_MAX);
  ASSIGN_OR_RETURN(const bool go_on, settings.parse(argc, argv));
  if (go_on) RETURN_IF_ERROR(check_options(options));
  return go_on;
}

Result<api::ModelInfo> open_model(const Options& options, const std::string& name, const Checkpoint& checkpoint) {
  const ModelConfig& config = checkpoint.config();
  api::ModelInfo model;
  model.name = options.served_model_name;
  if (model.name.empty()) model.name = name;
  if (std::cmp_greater(model.name.size(), limits::kMaxWireNameBytes)) {
    return Error{Errc::kInvalidArgument, "--served-model-name: too long", "served-model-name"};
  }
  model.vocab_size = config.vocab_size;
  model.eos_ids = config.eos_ids;
  model.texts = std::make_shared<tokenizer::StretchCache>(options.text_cache_mib * kMiB);
  ASSIGN_OR_RETURN(model.tokenizer, options.tokenizer.empty() ? tokenizer::load_model_tokenizer(checkpoint)
                                                              : tokenizer::Tokenizer::load(options.tokenizer));
  if (model.tokenizer == nullptr) {
    log_warning("{} has no tokenizer: only token ids are served", checkpoint.directory());
  } else if (model.tokenizer->vocab_size() > model.vocab_size) {
    log_warning("the tokenizer has {} tokens, but the model only {}: texts with others are refused",
                model.tokenizer->vocab_size(), model.vocab_size);
  }
  if (checkpoint.gguf() != nullptr) {
    ASSIGN_OR_RETURN(model.chat, api::load_chat_templates(*checkpoint.gguf(), options.chat_template));
  } else {
    ASSIGN_OR_RETURN(model.chat, api::load_chat_templates(checkpoint.directory(), options.chat_template));
  }
  return model;
}

Result<std::vector<std::string>> read_keys(const std::string& path) {
  std::vector<std::string> keys;
  if (path.empty()) return keys;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    while (!line.empty() && std::string_view(" \t\r").find(line.back()) != std::string_view::npos)
      line.pop_back();
    if (!line.empty() && line.front() != '#') keys.push_back(line);
  }
  if (!file.eof()) return Error{Errc::kIo, fmt::format("{} cannot be read", path), "api-key-file"};
  if (keys.empty()) return Error{Errc::kInvalidArgument, fmt::format("{} holds no key", path), "api-key-file"};
  return keys;
}

void log_access(const http::AccessRecord& record) {
  log_info("access {} {} {} bytes={} ms={:.1f} id={} client={}{}", record.method.empty() ? "-" : record.method,
           record.path, record.status, record.body_bytes, static_cast<double>(record.duration_ns) / 1e6,
           record.request_id, record.peer, record.complete ? "" : " incomplete");
}

/// Until a stop is asked for, then until the requests that have begun have ended, the time is up, or a second stop
/// comes. The API goes on answering meanwhile: /ready says 503, and new requests are told to go elsewhere.
void serve_until_stopped(const Options& options, const std::atomic<int>& stop_requests, api::Api& api,
                         http::HttpServer& server, const std::function<void()>& every_tick) {
  constexpr auto kPoll = std::chrono::milliseconds(50);
  while (stop_requests == 0) {
    every_tick();
    std::this_thread::sleep_for(kPoll);
  }
  log_info("draining; open requests: {}", api.cluster().open_requests());
  api.set_draining();
  api.cluster().refuse_new();
  server.end_idle();
  const auto begun = [&] { return api.cluster().open_requests() > 0 || server.stats().unread_requests > 0; };
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(options.drain_seconds);
  do {
    every_tick();
    std::this_thread::sleep_for(kPoll);
  } while (begun() && stop_requests < 2 && std::chrono::steady_clock::now() < end);
  if (api.cluster().open_requests() > 0) {
    log_warning("{} requests are cut off", api.cluster().open_requests());
    api.cluster().fail_open(Error{Errc::kUnavailable, "the server is shutting down", ""});
  }
  server.stop_accepting();
  server.drain(kLastAnswersNs);
}

Status serve(const Options& options) {
  init_log("coordinator", LogLevel::kInfo);
  give_large_buffers_back();
  std::atomic<int> stop_requests = 0;
  const StopWatch watch(options.watch_parent_pid, [&] { ++stop_requests; });
  ASSIGN_OR_RETURN(const int connections, connections_within(raise_descriptor_limit(), limits::kMaxConnections));
  const SteadyClock clock;
  metrics::Registry registry(metrics::Process::kCoordinator);
  api::CoordinatorMetrics figures(registry);

  api::ApiOptions api_options;
  ASSIGN_OR_RETURN(const ModelPlace folder, find_model(options.model));
  ASSIGN_OR_RETURN(const auto checkpoint, Checkpoint::open(folder.path));
  ASSIGN_OR_RETURN(api_options.model, open_model(options, folder.name, *checkpoint));
  ASSIGN_OR_RETURN(api_options.api_keys, read_keys(options.api_key_file));
  api_options.strict_fields = options.strict_fields;
  api_options.request_timeout_ms = static_cast<int64_t>(options.request_timeout_s * 1e3);
  api_options.created_s = unix_seconds();
  api_options.threads = static_cast<int>(options.api_threads);

  requests::CoreOptions core;
  core.incarnation = random_u64();
  core.name = fmt::format("coordinator-{:016x}", core.incarnation);
  core.groups = options.groups;
  for (const auto& group : options.groups)
    core.addresses.push_back(wire::leader_address(options.run_dir, group));
  core.model = api_options.model.name;
  core.fingerprint = checkpoint->fingerprint();
  core.tokenizer = api_options.model.tokenizer;
  core.default_timeout_ms = api_options.request_timeout_ms;
  ASSIGN_OR_RETURN(auto transport, transport::make_zmq_transport());
  ASSIGN_OR_RETURN(const auto cluster,
                   requests::ClusterClient::start(std::move(core), std::move(transport), clock, figures.observer()));
  api::Api api(std::move(api_options), *cluster, registry);

  http::Options http;
  http.host = options.host;
  http.port = static_cast<uint16_t>(options.port);
  http.threads = static_cast<int>(options.http_threads);
  http.max_body_bytes = options.max_body_bytes;
  http.max_connections = connections;
  ASSIGN_OR_RETURN(const auto server,
                   blame_option("port", http::HttpServer::start(http, api.handler(), [&](const auto& record) {
                                  figures.observe_access(record);
                                  log_access(record);
                                })));
  ASSIGN_OR_RETURN(const auto exposition,
                   blame_option("metrics-port", metrics::MetricsServer::start(
                                                    options.metrics_host, static_cast<uint16_t>(options.metrics_port),
                                                    [&] { return registry.render(); })));
  RETURN_IF_ERROR(say_ready(
      fmt::format(R"({{"pid":{},"port":{},"metrics_port":{}}})", getpid(), server->port(), exposition->port())));
  log_info("serving '{}' on {}:{}", api.model().name, options.host, server->port());
  serve_until_stopped(options, stop_requests, api, *server,
                      [&] { figures.observe(cluster->groups(), api.model(), server->stats()); });
  server->stop();
  exposition->stop();
  return {};
}

int run(int argc, char** argv) {
  Options options;
  return run_program("krait-coordinator", read_options(argc, argv, options), [&] { return serve(options); });
}

}  // namespace
}  // namespace krait

int main(int argc, char** argv) {
  return krait::run(argc, argv);
}
