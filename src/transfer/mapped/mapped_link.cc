#include "src/transfer/mapped/mapped_link.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <map>
#include <utility>

#include "src/base/rng.h"
#include "src/transfer/mapped/connections.h"

namespace baton::transfer {
namespace {

constexpr char kScheme[] = "mapped:";
constexpr size_t kFolderCharactersMax = 80;
constexpr int kAcceptsPerPoll = 16;

class MappedOwnerLink : public OwnerLink {
 public:
  MappedOwnerLink(Message hello, Fd pool, std::string path, Fd listener,
                  std::unique_ptr<Connections> connections)
      : hello_(std::move(hello)),
        pool_(std::move(pool)),
        path_(std::move(path)),
        listener_(std::move(listener)),
        connections_(std::move(connections)) {}
  ~MappedOwnerLink() override { unlink(path_.c_str()); }

  std::string endpoint() const override { return kScheme + path_; }
  void Send(PeerId peer, const Message& message) override { connections_->Send(peer, message); }
  void Drop(PeerId peer) override { connections_->Drop(peer); }

  void Poll(std::vector<LinkEvent>* events) override {
    std::vector<Connections::Hello> hellos;  // receivers send none; a passed descriptor is closed
    bool knocking = false;
    connections_->Poll(events, &hellos, &knocking);
    for (int i = 0; knocking && i < kAcceptsPerPoll; ++i) {
      // Full: whoever waits in the backlog gets in when somebody leaves, or gives up.
      if (connections_->size() >= kConnectionsMax) return;
      PacketSocket socket(Accept(listener_.get()));
      if (socket.fd() < 0) return;
      // A fresh socket has room for one packet; a peer that is gone again needs no notice.
      if (!socket.SendWithFd(EncodeMessage(hello_), pool_.get()).ok()) continue;
      connections_->Add(next_peer_++, std::move(socket));
    }
  }

 private:
  const Message hello_;
  Fd pool_;  // for reading only
  const std::string path_;
  Fd listener_;
  std::unique_ptr<Connections> connections_;
  PeerId next_peer_ = 1;
};

// The peer's pool in this process.
class Mapping {
 public:
  Mapping() = default;
  ~Mapping() { Reset(); }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  Status Map(const Fd& fd, uint64_t bytes) {
    struct stat file {};
    const int seals = fd.ok() ? fcntl(fd.get(), F_GET_SEALS) : -1;
    if (seals < 0 || (seals & F_SEAL_SHRINK) == 0 || fstat(fd.get(), &file) != 0 || bytes == 0 ||
        static_cast<uint64_t>(file.st_size) < bytes) {
      return InvalidArgumentError("the peer's pool of " + std::to_string(bytes) +
                                  " bytes is not a sealed memfd of that size");
    }
    void* data = mmap(nullptr, bytes, PROT_READ, MAP_SHARED, fd.get(), 0);
    if (data == MAP_FAILED) {
      return ResourceExhaustedError("mmap of the peer's pool of " + std::to_string(bytes) +
                                    " bytes: " + std::strerror(errno));
    }
    Reset();
    data_ = static_cast<const std::byte*>(data);
    bytes_ = bytes;
    return OkStatus();
  }
  const std::byte* data() const { return data_; }
  uint64_t bytes() const { return bytes_; }

 private:
  void Reset() {
    if (data_ != nullptr) munmap(const_cast<std::byte*>(data_), bytes_);
    data_ = nullptr;
  }
  const std::byte* data_ = nullptr;
  uint64_t bytes_ = 0;
};

class MappedReceiverLink : public ReceiverLink {
 public:
  explicit MappedReceiverLink(std::unique_ptr<Connections> connections)
      : connections_(std::move(connections)) {}

  Result<PeerId> Connect(const std::string& endpoint) override {
    if (!endpoint.starts_with(kScheme)) {
      return InvalidArgumentError("'" + endpoint + "' is not an endpoint of mapped memory");
    }
    if (const auto found = by_endpoint_.find(endpoint); found != by_endpoint_.end()) {
      return found->second;
    }
    const PeerId peer = next_peer_++;
    by_endpoint_[endpoint] = peer;
    Peer& entry = peers_[peer];
    entry.endpoint = endpoint;
    Dial(peer, &entry);
    return peer;
  }

  void Send(PeerId peer, const Message& message) override {
    const auto found = peers_.find(peer);
    // Whoever is not connected yet is asked again by the protocol.
    if (found != peers_.end() && found->second.connected) connections_->Send(peer, message);
  }

  void Drop(PeerId peer) override {
    connections_->Drop(peer);
    Forget(peer);
  }

  void Poll(std::vector<LinkEvent>* events) override {
    for (auto& [id, peer] : peers_) {
      if (!peer.connected && !peer.failed) Dial(id, &peer);
    }
    std::vector<Connections::Hello> hellos;
    bool ignored = false;
    const size_t first = events->size();
    connections_->Poll(events, &hellos, &ignored);
    for (const Connections::Hello& hello : hellos) {
      const auto found = peers_.find(hello.peer);
      if (found == peers_.end()) continue;
      if (Status s = found->second.pool.Map(hello.fd, hello.message.bytes); !s.ok()) {
        connections_->Lose(hello.peer, s);
      }
    }
    for (size_t i = first; i < events->size(); ++i) {
      if ((*events)[i].what == LinkEvent::What::kLost) Forget((*events)[i].peer);
    }
  }

  bool pulls() const override { return true; }
  Status Pull(PeerId peer, uint64_t from, std::byte* to, size_t bytes) override {
    const auto found = peers_.find(peer);
    if (found == peers_.end() || found->second.pool.data() == nullptr) {
      return UnavailableError("the owner's pool is not mapped here");
    }
    const Mapping& pool = found->second.pool;
    if (from > pool.bytes() || bytes > pool.bytes() - from) {
      return InvalidArgumentError("bytes at " + std::to_string(from) +
                                  " lie outside the owner's pool of " +
                                  std::to_string(pool.bytes()));
    }
    std::memcpy(to, pool.data() + from, bytes);
    return OkStatus();
  }

 private:
  struct Peer {
    std::string endpoint;
    bool connected = false;
    bool failed = false;  // reported lost by the next Poll
    Mapping pool;         // empty until the hello
  };

  void Dial(PeerId id, Peer* peer) {
    Result<Fd> fd = ConnectTo(peer->endpoint.substr(sizeof(kScheme) - 1));
    if (fd.ok()) {
      peer->connected = true;
      connections_->Add(id, PacketSocket(std::move(*fd)));
    } else if (fd.status().code() != StatusCode::kResourceExhausted) {
      peer->failed = true;
      connections_->Lose(id, fd.status());
    }
  }

  void Forget(PeerId peer) {
    const auto found = peers_.find(peer);
    if (found == peers_.end()) return;
    by_endpoint_.erase(found->second.endpoint);
    peers_.erase(found);
  }

  std::unique_ptr<Connections> connections_;
  std::map<PeerId, Peer> peers_;
  std::map<std::string, PeerId> by_endpoint_;
  PeerId next_peer_ = 1;
};

// The same file, but not to be written through.
Result<Fd> ReopenForReading(int fd) {
  const std::string path = "/proc/self/fd/" + std::to_string(fd);
  Fd reopened(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!reopened.ok()) {
    return InvalidArgumentError("pool descriptor " + std::to_string(fd) +
                                " cannot be reopened for reading: " + std::strerror(errno));
  }
  return reopened;
}

Status CheckFolder(const std::string& folder) {
  struct stat info {};
  if (folder.size() > kFolderCharactersMax) {
    return InvalidArgumentError("folder for sockets has " + std::to_string(folder.size()) +
                                " characters, at most " + std::to_string(kFolderCharactersMax) +
                                ": " + folder);
  }
  if (stat(folder.c_str(), &info) != 0 || !S_ISDIR(info.st_mode)) {
    return InvalidArgumentError("folder for sockets is no folder: " + folder);
  }
  return OkStatus();
}

// 16 hexadecimal digits, so that names of restarts and of other instances never meet.
std::string RandomName() { return "kv-" + RandomHexId().substr(0, 16); }

}  // namespace

Result<std::unique_ptr<OwnerLink>> MakeMappedOwnerLink(const LocalRank& local, int pool_fd,
                                                       const std::string& folder) {
  BATON_RETURN_IF_ERROR(CheckFolder(folder));
  ASSIGN_OR_RETURN(Fd pool, ReopenForReading(pool_fd));
  struct stat file {};
  if (fstat(pool.get(), &file) != 0 ||
      static_cast<uint64_t>(file.st_size) < local.shape.pool_bytes()) {
    return InvalidArgumentError("pool descriptor has " + std::to_string(file.st_size) +
                                " bytes, the pool " + std::to_string(local.shape.pool_bytes()));
  }
  Message hello;
  hello.kind = Kind::kHello;
  hello.instance = local.instance;
  hello.owner_epoch = local.instance_epoch.value;
  hello.owner_rank = local.rank;
  hello.bytes = local.shape.pool_bytes();
  ASSIGN_OR_RETURN(auto connections, Connections::Create());
  const std::string path = folder + "/" + RandomName();
  ASSIGN_OR_RETURN(Fd listener, ListenAt(path));
  BATON_RETURN_IF_ERROR(connections->AddListener(listener.get()));
  return std::unique_ptr<OwnerLink>(std::make_unique<MappedOwnerLink>(
      std::move(hello), std::move(pool), path, std::move(listener), std::move(connections)));
}

Result<std::unique_ptr<ReceiverLink>> MakeMappedReceiverLink() {
  ASSIGN_OR_RETURN(auto connections, Connections::Create());
  return std::unique_ptr<ReceiverLink>(
      std::make_unique<MappedReceiverLink>(std::move(connections)));
}

}  // namespace baton::transfer
