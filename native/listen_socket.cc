#include "listen_socket.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace broadsheet {
namespace {

constexpr int kBacklog = 4096;  // cut to net.core.somaxconn by the kernel
// How often port 0 is tried again when the port found on the first address is taken on the second.
constexpr int kAttempts = 8;

Status failed(int error, std::string context) {
  if (error == EADDRINUSE) return {Code::kAddressInUse, error, std::move(context)};
  return Status::FromErrno(error, std::move(context));
}

Status open_one(const addrinfo& info, int port, bool dual_stack, const ListenOptions& options, int* out) {
  SocketAddress address{};
  std::memcpy(&address, info.ai_addr, std::min<size_t>(info.ai_addrlen, sizeof(address)));
  if (info.ai_family == AF_INET6) address.v6.sin6_port = htons(static_cast<uint16_t>(port));
  else address.v4.sin_port = htons(static_cast<uint16_t>(port));
  const std::string name = "listen on " + address_text(address) + " port " + std::to_string(port);

  const int fd = ::socket(info.ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return failed(errno, name);
  const int on = 1;
  ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  if (info.ai_family == AF_INET6) {
    const int only = dual_stack ? 0 : 1;
    ::setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &only, sizeof(only));
  }
  if (options.send_buffer_bytes > 0) {
    ::setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &options.send_buffer_bytes, sizeof(int));
  }
  if (options.receive_buffer_bytes > 0) {
    ::setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &options.receive_buffer_bytes, sizeof(int));
  }
  const socklen_t length = info.ai_family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
  if (::bind(fd, &address.any, length) != 0 || ::listen(fd, kBacklog) != 0) {
    const int error = errno;
    ::close(fd);
    return failed(error, name);
  }
  *out = fd;
  return Status::Ok();
}

void close_all(std::vector<int>* sockets) {
  for (const int fd : *sockets) ::close(fd);
  sockets->clear();
}

bool absent_here(int error) { return error == EADDRNOTAVAIL || error == EAFNOSUPPORT; }

Status open_all(const addrinfo* list, int port, bool dual_stack, const ListenOptions& options,
                std::vector<int>* sockets, int* bound_port) {
  Status last = Status::Of(Code::kNotFound, "no address to listen on");
  for (const addrinfo* info = list; info != nullptr; info = info->ai_next) {
    if (info->ai_family != AF_INET && info->ai_family != AF_INET6) continue;
    int fd = -1;
    Status status = open_one(*info, port, dual_stack, options, &fd);
    if (!status.ok()) {
      last = status;
      // A name may have addresses that this machine does not have (::1 without IPv6, say).
      if (absent_here(status.error_number)) continue;
      close_all(sockets);
      return status;
    }
    sockets->push_back(fd);
    SocketAddress bound{};
    socklen_t length = sizeof(bound);
    ::getsockname(fd, &bound.any, &length);
    port = address_port(bound);
    if (dual_stack) break;
  }
  *bound_port = port;
  return sockets->empty() ? last : Status::Ok();
}

}  // namespace

std::string address_text(const SocketAddress& address) {
  char text[INET6_ADDRSTRLEN] = "";
  if (address.any.sa_family == AF_INET6) ::inet_ntop(AF_INET6, &address.v6.sin6_addr, text, sizeof(text));
  else ::inet_ntop(AF_INET, &address.v4.sin_addr, text, sizeof(text));
  return text;
}

int address_port(const SocketAddress& address) {
  return ntohs(address.any.sa_family == AF_INET6 ? address.v6.sin6_port : address.v4.sin_port);
}

Status open_listeners(const std::string& host, int port, const ListenOptions& options, std::vector<int>* sockets,
                      int* bound_port) {
  if (host.find('\0') != std::string::npos) return Status::Of(Code::kInvalidArgument, "a host name with a NUL in it");
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* list = nullptr;
  // As in Java and Node, :: is every address of both families.
  const bool everywhere = host.empty() || host == "*" || host == "::";
  const int error = ::getaddrinfo(everywhere ? "::" : host.c_str(), "0", &hints, &list);
  if (error != 0) {
    return Status::Of(Code::kNotFound, "listen on " + host + ": " + ::gai_strerror(error));
  }
  Status status;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    status = open_all(list, port, everywhere, options, sockets, bound_port);
    if (status.ok() || port != 0 || status.code != Code::kAddressInUse) break;
  }
  ::freeaddrinfo(list);
  // Without IPv6 every address is every IPv4 address.
  if (everywhere && !status.ok() && absent_here(status.error_number)) {
    return open_listeners("0.0.0.0", port, options, sockets, bound_port);
  }
  return status;
}

}  // namespace broadsheet
