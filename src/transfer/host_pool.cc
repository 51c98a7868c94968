#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "src/transfer/transfer.h"

namespace baton::transfer {
namespace {

Status Failed(const std::string& call, const std::string& name, size_t bytes) {
  return ResourceExhaustedError(call + " for pool " + name + " of " + std::to_string(bytes) +
                                " bytes: " + std::strerror(errno));
}

}  // namespace

Result<std::unique_ptr<HostPool>> HostPool::Create(const std::string& name, size_t bytes) {
  if (bytes == 0) return InvalidArgumentError("pool " + name + " of no bytes");
  // 249 is the kernel's limit for the name, which only shows up in /proc.
  const int fd = memfd_create(name.substr(0, 200).c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd < 0) return Failed("memfd_create", name, bytes);
  void* data = MAP_FAILED;
  if (ftruncate(fd, static_cast<off_t>(bytes)) == 0) {
    data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  }
  // A peer that maps it must never see it shrink, which would end that process by SIGBUS.
  if (data == MAP_FAILED || fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) != 0) {
    const Status status = Failed("mapping", name, bytes);
    if (data != MAP_FAILED) munmap(data, bytes);
    close(fd);
    return status;
  }
  const backend::Buffer buffer{backend::Space::kHost, static_cast<std::byte*>(data), bytes};
  return std::unique_ptr<HostPool>(new HostPool(fd, buffer));
}

HostPool::~HostPool() {
  munmap(buffer_.data, buffer_.bytes);
  close(fd_);
}

}  // namespace baton::transfer
