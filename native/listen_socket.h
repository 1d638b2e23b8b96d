// Sockets that listen: names resolved, every address of a name bound to one port.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <string>
#include <vector>

#include "status.h"

namespace broadsheet {

// An address as the kernel gave it.
union SocketAddress {
  sockaddr any;
  sockaddr_in v4;
  sockaddr_in6 v6;
};

// "127.0.0.1" or "::1", as inet_ntop(3) writes them.
std::string address_text(const SocketAddress& address);
int address_port(const SocketAddress& address);

struct ListenOptions {
  int send_buffer_bytes = 0;     // SO_SNDBUF of accepted sockets; 0 or less: the system's own
  int receive_buffer_bytes = 0;  // SO_RCVBUF
};

// Binds and listens on all addresses of host (resolved by getaddrinfo, which may wait for a name server; "" is every
// IPv6 and IPv4 address) with one port; port 0 takes a free one. Descriptors are non-blocking and CLOEXEC; what is
// accepted inherits TCP_NODELAY and the buffer sizes. kAddressInUse, kNotFound (no such host), kLimit, kIo.
Status open_listeners(const std::string& host, int port, const ListenOptions& options, std::vector<int>* sockets,
                      int* bound_port);

}  // namespace broadsheet
