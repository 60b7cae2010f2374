// The coordinator's side of the cluster: a thread that runs the request core over a transport. Any thread may call.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/transport/transport.h"
#include "coordinator/requests/generation.h"
#include "coordinator/requests/request_core.h"

namespace krait::requests {

class ClusterClient final {
 public:
  /// Takes the transport over and connects to every group of `options`. Error kIo names the address.
  static Result<std::unique_ptr<ClusterClient>> start(CoreOptions options,
                                                      std::unique_ptr<transport::Transport> transport,
                                                      const Clock& clock, CoreObserver observer = {});
  ~ClusterClient();

  /// Starts a request; news go to the sink until it has ended. Never blocks; never fails here: refusals come as
  /// on_error, and where this coordinator holds too many requests, or too many of this client's, before submit returns.
  RequestId submit(GenerationSpec spec, std::shared_ptr<GenerationSink> sink);

  /// The client has gone: no more news, its slots are freed. Unknown or ended requests are no error.
  void cancel(RequestId request);

  std::vector<GroupSnapshot> groups() const;
  /// What to tell a client that is refused for want of room: the least backlog of a serving group.
  uint32_t retry_after_s() const;
  /// Every group serves.
  bool ready() const;
  uint32_t open_requests() const;

  /// Refuses new requests (kUnavailable) from now on; open ones go on.
  void refuse_new();

  /// Ends every open request with an error of that code and text.
  void fail_open(const Error& error);

 private:
  class Loop;
  explicit ClusterClient(std::unique_ptr<Loop> loop);
  std::unique_ptr<Loop> loop_;
};

}  // namespace krait::requests
