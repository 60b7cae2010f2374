// A server on a free port with a handler that the tests steer by path.
#pragma once

#include <gtest/gtest.h>

#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "common/base/units.h"
#include "coordinator/http/http_server.h"
#include "tests/unit/coordinator/http/test_client.h"

namespace krait::http {

/// Something that happens on another thread and is waited for.
class Event final {
 public:
  void set() {
    const std::lock_guard lock(mutex_);
    set_ = true;
    changed_.notify_all();
  }
  bool wait() {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::milliseconds(kPatienceMs), [&] { return set_; });
  }
  bool is_set() {
    const std::lock_guard lock(mutex_);
    return set_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool set_ = false;
};

class ServerTest : public ::testing::Test {
 protected:
  using PathHandler = std::function<void(const Request&, const std::shared_ptr<Responder>&)>;

  /// "/echo" answers with what it was sent; "/hold" keeps the responder for held(). Others by `paths_`, else 404.
  void start(Options options = {}) {
    auto server = HttpServer::start(
        options, [this](Request request, std::shared_ptr<Responder> responder) { handle(request, responder); },
        [this](const AccessRecord& record) {
          const std::lock_guard lock(mutex_);
          log_.push_back(record);
          changed_.notify_all();
        });
    ASSERT_TRUE(server.ok()) << to_string(server.error());
    server_ = std::move(server).value();
  }

  void TearDown() override {
    if (server_) server_->stop();
    held_.clear();
  }

  void handle(const Request& request, const std::shared_ptr<Responder>& responder) {
    if (request.path == "/echo") {
      responder->respond(200, {{"x-query", request.query}}, request.method + " " + request.body);
    } else if (request.path == "/hold") {
      const std::lock_guard lock(mutex_);
      held_.push_back(responder);
      changed_.notify_all();
    } else if (const auto found = paths_.find(request.path); found != paths_.end()) {
      found->second(request, responder);
    } else {
      responder->respond(404, {}, "nothing here");
    }
  }

  /// Waits until `count` requests to /hold have come, and hands the last one over.
  std::shared_ptr<Responder> held(size_t count = 1) {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_for(lock, std::chrono::milliseconds(kPatienceMs), [&] { return held_.size() >= count; })) {
      ADD_FAILURE() << "no request arrived";
      return nullptr;
    }
    return held_[count - 1];
  }

  /// Waits for the access log's line number `count`.
  AccessRecord logged(size_t count = 1) {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_for(lock, std::chrono::milliseconds(kPatienceMs), [&] { return log_.size() >= count; })) {
      ADD_FAILURE() << "no line in the access log";
      return {};
    }
    return log_[count - 1];
  }

  /// Waits until the server has no connection left.
  bool wait_for_no_connections() {
    const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(kPatienceMs);
    while (server_->stats().connections > 0) {
      if (std::chrono::steady_clock::now() > end) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return true;
  }

  std::unique_ptr<HttpServer> server_;
  std::map<std::string, PathHandler> paths_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::shared_ptr<Responder>> held_;
  std::vector<AccessRecord> log_;
};

inline std::string get(std::string_view path, std::string_view more = "") {
  return "GET " + std::string(path) + " HTTP/1.1\r\nHost: test\r\n" + std::string(more) + "\r\n";
}

inline std::string post(std::string_view path, std::string_view body, std::string_view more = "") {
  return "POST " + std::string(path) + " HTTP/1.1\r\nHost: test\r\nContent-Length: " + std::to_string(body.size()) +
         "\r\n" + std::string(more) + "\r\n" + std::string(body);
}

}  // namespace krait::http
