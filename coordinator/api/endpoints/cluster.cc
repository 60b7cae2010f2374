// GET /health, /ready and /cluster: is it alive, does it serve, what is it made of.
#include <unistd.h>

#include "common/base/version.h"
#include "coordinator/api/api.h"
#include "coordinator/api/json_body.h"

namespace krait::api {
namespace {

using nlohmann::ordered_json;

std::string_view state_name(wire::GroupState state) {
  switch (state) {
    case wire::GroupState::kWaiting:
      return "waiting";
    case wire::GroupState::kLoading:
      return "loading";
    case wire::GroupState::kServing:
      return "serving";
    case wire::GroupState::kDraining:
      return "draining";
    case wire::GroupState::kFailed:
      return "failed";
  }
  return "unknown";
}

ordered_json describe(const requests::GroupSnapshot& group) {
  ordered_json out;
  out["name"] = group.name;
  out["state"] = group.connected ? state_name(group.status.state) : "unreachable";
  out["detail"] = group.connected ? group.status.detail : "nothing is heard of its leader";
  out["model"] = group.status.model;
  out["system_fingerprint"] = group.status.numerics_id;
  out["fingerprint"] = group.status.fingerprint;
  out["slots"] = group.status.slots;
  out["running"] = group.status.running;
  out["waiting"] = group.status.waiting;
  out["max_queue"] = group.status.max_queue;
  out["tokens_per_second"] = group.status.tokens_per_second;
  out["backlog_seconds"] = group.status.backlog_seconds;
  out["ranks"] = ordered_json::array();
  for (const auto& rank : group.status.ranks) {
    ordered_json entry;
    entry["rank"] = rank.rank;
    entry["pid"] = rank.pid;
    entry["joined"] = rank.joined;
    entry["ready"] = rank.ready;
    entry["metrics_port"] = rank.metrics_port;
    out["ranks"].push_back(std::move(entry));
  }
  return out;
}

}  // namespace

void health(Api&, const http::Request&, const ResponderPtr& responder) {
  respond_json(*responder, 200, R"({"status":"ok"})");
}

void ready(Api& api, const http::Request&, const ResponderPtr& responder) {
  ordered_json body;
  const auto groups = api.cluster().groups();
  bool all = !api.draining() && !groups.empty();
  for (const auto& group : groups)
    all = all && group.serving;
  body["status"] = all ? "ready" : api.draining() ? "draining" : "waiting";
  body["groups"] = ordered_json::array();
  for (const auto& group : groups) {
    ordered_json entry = describe(group);
    body["groups"].push_back({{"name", entry["name"]}, {"state", entry["state"]}, {"detail", entry["detail"]}});
  }
  respond_json(*responder, all ? 200 : 503, dump(body));
}

void cluster(Api& api, const http::Request&, const ResponderPtr& responder) {
  ordered_json body;
  body["version"] = version();
  body["coordinator"]["pid"] = getpid();
  body["coordinator"]["open_requests"] = api.cluster().open_requests();
  body["groups"] = ordered_json::array();
  for (const auto& group : api.cluster().groups())
    body["groups"].push_back(describe(group));
  respond_json(*responder, 200, dump(body));
}

}  // namespace krait::api
