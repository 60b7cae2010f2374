#include "coordinator/api/api.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <iterator>
#include <set>
#include <utility>

#include "common/base/thread.h"
#include "common/base/units.h"
#include "coordinator/api/client_key.h"
#include "coordinator/api/json_body.h"
#include "coordinator/http/error_body.h"

namespace krait::api {

#define ENDPOINT(method, path, handler, ...) \
  void handler(Api& api, const http::Request& request, const ResponderPtr& responder);
#include "coordinator/api/endpoints.def"
#undef ENDPOINT

namespace {

struct Endpoint final {
  std::string_view method;
  std::string_view path;
  void (*handler)(Api&, const http::Request&, const ResponderPtr&);
  Access access;
};

constexpr auto kEndpoints = std::to_array<Endpoint>({
#define ENDPOINT(method, path, handler, access, ...) {method, path, handler, Access::access},
#include "coordinator/api/endpoints.def"
#undef ENDPOINT
});

/// What a path (or "*": any path) takes, as the header Allow has it; empty when there is no such path.
std::string allowed_methods(std::string_view path) {
  std::set<std::string_view> methods;
  for (const Endpoint& endpoint : kEndpoints) {
    if (path != "*" && !path_fits(endpoint.path, path)) continue;
    methods.insert({endpoint.method, "OPTIONS"});
    if (endpoint.method == "GET") methods.insert("HEAD");
  }
  return fmt::format("{}", fmt::join(methods, ", "));
}

const Endpoint* find_endpoint(const http::Request& request) {
  const std::string_view method = request.method == "HEAD" ? "GET" : std::string_view(request.method);
  for (const Endpoint& endpoint : kEndpoints) {
    if (path_fits(endpoint.path, request.path) && method == endpoint.method) return &endpoint;
  }
  return nullptr;
}

void respond_without_endpoint(Api& api, const http::Request& request, http::Responder& responder) {
  const std::string allowed = allowed_methods(request.path);
  if (allowed.empty()) {
    respond_error(api, responder, Error{Errc::kNotFound, fmt::format("there is no {}", shortened(request.path)), ""});
    return;
  }
  if (request.method == "OPTIONS") {
    responder.respond(204, {{"Allow", allowed}}, "");
    return;
  }
  const Error error{Errc::kMethodNotAllowed, fmt::format("{} takes {}", shortened(request.path), allowed), ""};
  api.registry().counter(metrics::CounterId::kErrors, {errc_info(error.code).label}).add();
  responder.respond(errc_info(error.code).http_status, {{"Content-Type", "application/json"}, {"Allow", allowed}},
                    http::error_body(error));
}

/// Takes the same time wherever the two differ.
bool equal_in_constant_time(std::string_view a, std::string_view b) {
  unsigned difference = a.size() == b.size() ? 0 : 1;
  for (size_t i = 0; i < a.size(); ++i) {
    difference |= static_cast<unsigned char>(a[i]) ^ static_cast<unsigned char>(b[b.empty() ? 0 : i % b.size()]);
  }
  return difference == 0;
}

}  // namespace

bool path_fits(std::string_view pattern, std::string_view path) {
  const size_t name = pattern.find('{');
  if (name == pattern.npos) return pattern == path;
  return path.size() > name && path.starts_with(pattern.substr(0, name));
}

Status take_unknown_fields(Api& api, const UnknownFields& unknown) {
  api.registry().counter(metrics::CounterId::kUnknownFields).add(static_cast<double>(unknown.count));
  if (!api.options().strict_fields || unknown.count == 0) return {};
  const std::string& name = unknown.names.front();
  return Error{Errc::kInvalidArgument, fmt::format("'{}' is not known here", name), name};
}

void add_unknown_fields(http::Headers& headers, const UnknownFields& unknown) {
  static const std::string name = "x-krait-unknown-fields";
  if (unknown.count > 0) headers.add(name, unknown.header());
}

void respond_json(http::Responder& responder, int status, std::string json, const UnknownFields& unknown) {
  http::Headers headers{{"Content-Type", "application/json"}};
  add_unknown_fields(headers, unknown);
  responder.respond(status, std::move(headers), std::move(json));
}

void respond_error(Api& api, http::Responder& responder, const Error& error, uint32_t retry_after_s) {
  const ErrcInfo& info = errc_info(error.code);
  api.registry().counter(metrics::CounterId::kErrors, {info.label}).add();
  http::Headers headers{{"Content-Type", "application/json"}};
  if (retry_after_s > 0) headers.add("Retry-After", std::to_string(retry_after_s));
  if (error.code == Errc::kUnauthorized) headers.add("WWW-Authenticate", "Bearer");
  responder.respond(info.http_status, std::move(headers), http::error_body(error));
}

Api::Api(ApiOptions options, requests::ClusterClient& cluster, metrics::Registry& registry)
    : options_(std::move(options)),
      cluster_(cluster),
      registry_(registry),
      answers_room_(options_.max_answers_bytes),
      executor_(options_.threads, options_.max_waiting),
      large_executor_(1, options_.max_waiting),
      ticker_(start_thread("the API's timer", [this] { tick(); })) {}

Api::~Api() {
  {
    const std::scoped_lock lock(ticker_mutex_);
    stop_ = true;
  }
  ticker_wake_.notify_all();
  ticker_.join();
}

void Api::every_tick(std::function<bool()> call) {
  const std::scoped_lock lock(ticker_mutex_);
  every_tick_.push_back(std::move(call));
}

void Api::tick() {
  std::unique_lock lock(ticker_mutex_);
  const std::chrono::nanoseconds period(std::min(kSecond, options_.keep_alive_ns));
  while (!ticker_wake_.wait_for(lock, period, [this] { return stop_; })) {
    auto calls = std::exchange(every_tick_, {});
    lock.unlock();
    std::erase_if(calls, [](const auto& call) { return !call(); });
    lock.lock();
    std::move(calls.begin(), calls.end(), std::back_inserter(every_tick_));
  }
}

bool Api::has_key(const http::Request& request) const {
  const std::string_view given = bearer_key(request);
  bool found = false;
  for (const auto& key : options_.api_keys)
    found |= equal_in_constant_time(given, key);
  return found;
}

std::string Api::client_of(const http::Request& request) const {
  return has_key(request) ? key_hash(bearer_key(request)) : peer_address(request);
}

http::Handler Api::handler() {
  return [this](http::Request request, ResponderPtr responder) {
    registry_.counter(metrics::CounterId::kHttpReceivedBytes).add(static_cast<double>(request.body.size()));
    const Endpoint* endpoint = find_endpoint(request);
    if (endpoint == nullptr) {
      respond_without_endpoint(*this, request, *responder);
      return;
    }
    // Before anything of it waits: who has no key takes nobody's place.
    if (endpoint->access == Access::kKey && !options_.api_keys.empty() && !has_key(request)) {
      respond_error(*this, *responder,
                    Error{Errc::kUnauthorized, "a valid API key is needed: Authorization: Bearer KEY", ""});
      return;
    }
    // Probes wait for nobody: a process whose threads are busy is alive.
    if (endpoint->access == Access::kProbe) {
      endpoint->handler(*this, request, responder);
      return;
    }
    const ResponderPtr keep = responder;
    const std::string client = client_of(request);
    const auto bytes = static_cast<int64_t>(request.body.size());
    Executor& executor = bytes > options_.large_body_bytes ? large_executor_ : executor_;
    const bool taken = executor.post(
        client,
        [this, endpoint, request = std::move(request), responder = std::move(responder)] {
          endpoint->handler(*this, request, responder);
        },
        bytes);
    if (taken) return;
    const Error error{Errc::kOverloaded, "too many requests wait to be read; try again later", ""};
    respond_error(*this, *keep, error, cluster_.retry_after_s());
  };
}

}  // namespace krait::api
