#include "shard_server/collectives/tcp_mesh.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <deque>
#include <thread>
#include <vector>

#include "common/base/log.h"

namespace krait::collectives {
namespace {

constexpr uint64_t kMagic = 0x4B52'4149'5443'5032;  // "KRAITCP" and the protocol's version
constexpr size_t kAddressBytes = 64;

enum class Channel : uint32_t { kData, kControl };

struct Hello final {
  uint64_t magic = kMagic;
  uint64_t epoch = 0;
  uint32_t world = 0;
  uint32_t rank = 0;
  Channel channel = Channel::kData;
  ReduceOrder order = ReduceOrder::kRankOrder;
  int64_t stage_bytes = 0;
  int64_t two_shot_bytes = 0;
  uint64_t algorithms = 0;
  std::array<char, 72> name{};                   // ends with 0
  std::array<char, kAddressBytes> listens_at{};  // the same
};

/// Code 0 is yes.
struct Answer final {
  uint64_t magic = kMagic;
  int64_t code = 0;
  std::array<char, 240> words{};  // ends with 0
};

using Roster = std::array<std::array<char, kAddressBytes>, limits::kMaxWorld>;

template <size_t kBytes>
void put_text(std::array<char, kBytes>& to, std::string_view text) {
  std::memcpy(to.data(), text.data(), std::min(text.size(), kBytes - 1));
}

template <size_t kBytes>
std::string get_text(const std::array<char, kBytes>& from) {
  return std::string(from.data(), strnlen(from.data(), kBytes));
}

Error protocol(std::string words) {
  return Error{Errc::kProtocol, std::move(words), ""};
}

Answer answer_of(const Status& status) {
  Answer answer;
  if (status.ok()) return answer;
  answer.code = static_cast<int64_t>(status.error().code);
  put_text(answer.words, status.error().message);
  return answer;
}

Status send_answer(int fd, const Status& status, const Patience& patience) {
  const Answer answer = answer_of(status);
  return send_whole(fd, &answer, sizeof answer, patience);
}

Status receive_answer(int fd, const Patience& patience) {
  Answer answer;
  RETURN_IF_ERROR(receive_whole(fd, &answer, sizeof answer, patience));
  if (answer.magic != kMagic) return protocol("what answers there is no rank");
  if (answer.code != 0) return Error{code_from_wire(answer.code), get_text(answer.words), ""};
  return {};
}

class Forming final {
 public:
  Forming(const Options& options, const BlockConfig& config, const Patience& patience)
      : options_(options), config_(config), patience_(patience), world_(options.world) {}

  Status run() {
    Status status = options_.rank == 0 ? lead() : follow();
    // Whoever waits for this rank learns why it will not come.
    if (!status.ok()) tell_all(status);
    return status;
  }
  TcpMesh take() { return std::move(mesh_); }

 private:
  /// A connection that has not said its whole Hello.
  struct Guest final {
    Fd fd;
    Hello hello;
    size_t bytes = 0;
  };

  Status lead();
  Status follow();
  Status reach_leader();
  Status accept_from(int first_rank);
  Status hear(Guest& guest, int first_rank);
  Status check(const Hello& hello, int first_rank) const;
  Result<Fd> greet(int peer, const std::string& address, Channel channel);
  Status greet_both(int peer, const std::string& address);
  /// Of the ranks from `first_rank` on, the first without both connections; the world where there is none.
  int first_missing(int first_rank) const;
  void tell_all(const Status& status);

  const Options& options_;
  const BlockConfig& config_;
  const Patience& patience_;
  const int world_;
  std::shared_ptr<TcpListener> listener_;
  TcpMesh mesh_;
  Roster roster_{};
};

Status Forming::lead() {
  listener_ = options_.listener;
  RETURN_IF_ERROR(accept_from(1));
  for (int peer = 1; peer < world_; ++peer) {
    const int fd = mesh_.data[static_cast<size_t>(peer)].get();
    RETURN_IF_ERROR(send_answer(fd, {}, patience_));
    RETURN_IF_ERROR(send_whole(fd, roster_.data(), sizeof roster_, patience_));
  }
  // Formed for all or for none: each says that it has its connections, then each hears that all have.
  for (int peer = 1; peer < world_; ++peer)
    RETURN_IF_ERROR(receive_answer(mesh_.data[static_cast<size_t>(peer)].get(), patience_));
  for (int peer = 1; peer < world_; ++peer)
    RETURN_IF_ERROR(send_answer(mesh_.data[static_cast<size_t>(peer)].get(), {}, patience_));
  return {};
}

Status Forming::follow() {
  ASSIGN_OR_RETURN(listener_, TcpListener::open_towards(options_.address));
  RETURN_IF_ERROR(reach_leader());
  const int leader = mesh_.data[0].get();
  RETURN_IF_ERROR(receive_whole(leader, roster_.data(), sizeof roster_, patience_));
  for (int peer = 1; peer < options_.rank; ++peer) {
    RETURN_IF_ERROR(greet_both(peer, get_text(roster_[static_cast<size_t>(peer)])));
    RETURN_IF_ERROR(receive_answer(mesh_.data[static_cast<size_t>(peer)].get(), patience_));
  }
  RETURN_IF_ERROR(accept_from(options_.rank + 1));
  for (int peer = options_.rank + 1; peer < world_; ++peer)
    RETURN_IF_ERROR(send_answer(mesh_.data[static_cast<size_t>(peer)].get(), {}, patience_));
  RETURN_IF_ERROR(send_answer(leader, {}, patience_));
  return receive_answer(leader, patience_);
}

// Rank 0 shows out whoever comes while another forming goes on there: this one's turn comes.
Status Forming::reach_leader() {
  while (true) {
    Status status = greet_both(0, options_.address);
    if (status.ok()) status = receive_answer(mesh_.data[0].get(), patience_);
    if (status.ok() || status.error().param != kConnectionClosed) return status;
    RETURN_IF_ERROR(patience_.check("rank 0 did not let this rank in"));
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

Status Forming::greet_both(int peer, const std::string& address) {
  ASSIGN_OR_RETURN(mesh_.data[static_cast<size_t>(peer)], greet(peer, address, Channel::kData));
  ASSIGN_OR_RETURN(mesh_.control[static_cast<size_t>(peer)], greet(peer, address, Channel::kControl));
  return {};
}

Result<Fd> Forming::greet(int peer, const std::string& address, Channel channel) {
  ASSIGN_OR_RETURN(Fd fd, connect_to(address, patience_));
  Hello hello;
  hello.epoch = options_.epoch;
  hello.world = static_cast<uint32_t>(world_);
  hello.rank = static_cast<uint32_t>(options_.rank);
  hello.channel = channel;
  hello.order = config_.order;
  hello.stage_bytes = config_.stage_bytes;
  hello.two_shot_bytes = config_.two_shot_bytes;
  hello.algorithms = config_.algorithms;
  put_text(hello.name, options_.name);
  put_text(hello.listens_at, listener_->address());
  const Status status = send_whole(fd.get(), &hello, sizeof hello, patience_);
  if (!status.ok())
    return Error{status.error().code, fmt::format("rank {}: {}", peer, status.error().message), status.error().param};
  return fd;
}

int Forming::first_missing(int first_rank) const {
  for (int peer = first_rank; peer < world_; ++peer) {
    const auto at = static_cast<size_t>(peer);
    if (!mesh_.data[at].is_open() || !mesh_.control[at].is_open()) return peer;
  }
  return world_;
}

// Takes the connections of all ranks from `first_rank` on. Strangers may come meanwhile: each has a place among a few
// guests until it has said Hello, and the one that has had it for longest gives it up.
Status Forming::accept_from(int first_rank) {
  std::deque<Guest> guests;
  for (int missing = first_missing(first_rank); missing < world_; missing = first_missing(missing)) {
    RETURN_IF_ERROR(patience_.check(fmt::format("rank {} did not come", missing)));
    std::vector<pollfd> fds{{listener_->fd(), POLLIN, 0}};
    for (const Guest& guest : guests)
      fds.push_back({guest.fd.get(), POLLIN, 0});
    constexpr int kMomentMs = 20;
    poll(fds.data(), fds.size(), kMomentMs);
    for (Guest& guest : guests)
      RETURN_IF_ERROR(hear(guest, first_rank));
    std::erase_if(guests, [](const Guest& guest) { return !guest.fd.is_open(); });
    Fd fd(accept4(listener_->fd(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!fd.is_open()) continue;
    if (std::ssize(guests) == limits::kMaxTcpGuests) guests.pop_front();
    guests.emplace_back().fd = std::move(fd);
  }
  return {};
}

// Reads on. A whole Hello of this group makes the guest a peer; anybody else is shown out.
Status Forming::hear(Guest& guest, int first_rank) {
  const ssize_t got = recv(guest.fd.get(), reinterpret_cast<char*>(&guest.hello) + guest.bytes,
                           sizeof(Hello) - guest.bytes, MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return {};
  if (got > 0) guest.bytes += static_cast<size_t>(got);
  const Hello& hello = guest.hello;
  const bool is_whole = guest.bytes == sizeof(Hello);
  if (got > 0 && !is_whole) return {};
  if (!is_whole || hello.magic != kMagic || hello.epoch != options_.epoch || get_text(hello.name) != options_.name) {
    guest.fd.reset();
    return {};
  }
  Status status = check(hello, first_rank);
  if (!status.ok()) {
    static_cast<void>(send_answer(guest.fd.get(), status, patience_));
    guest.fd.reset();
    return status;
  }
  tune_socket(guest.fd.get());
  auto& place = hello.channel == Channel::kData ? mesh_.data : mesh_.control;
  place[hello.rank] = std::move(guest.fd);
  roster_[hello.rank] = hello.listens_at;
  return {};
}

Status Forming::check(const Hello& hello, int first_rank) const {
  if (hello.world != static_cast<uint32_t>(world_) || hello.order != config_.order ||
      hello.stage_bytes != config_.stage_bytes || hello.two_shot_bytes != config_.two_shot_bytes ||
      hello.algorithms != config_.algorithms || hello.channel > Channel::kControl) {
    return protocol(fmt::format("rank {}: its options are not those of rank {}", hello.rank, options_.rank));
  }
  const bool is_expected = hello.rank >= static_cast<uint32_t>(first_rank) && hello.rank < hello.world;
  const auto& place = hello.channel == Channel::kData ? mesh_.data : mesh_.control;
  if (!is_expected || place[hello.rank].is_open())
    return protocol(fmt::format("rank {}: this rank is in the group twice", hello.rank));
  return {};
}

void Forming::tell_all(const Status& status) {
  const Answer answer = answer_of(status);
  for (const Fd& fd : mesh_.data) {
    if (fd.is_open()) send(fd.get(), &answer, sizeof answer, MSG_NOSIGNAL | MSG_DONTWAIT);
  }
}

}  // namespace

Result<TcpMesh> form_tcp_mesh(const Options& options, const BlockConfig& config, const Patience& patience) {
  if (options.world == 1) return TcpMesh{};
  if (options.rank == 0 && options.listener == nullptr)
    return Error{Errc::kInvalidArgument, "rank 0 of a TCP group needs a listener", "listener"};
  Forming forming(options, config, patience);
  RETURN_IF_ERROR(forming.run());
  return forming.take();
}

}  // namespace krait::collectives
