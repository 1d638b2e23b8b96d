// Load for the benchmarks of transports: keeps DEPTH requests in flight on each of CONNECTIONS connections for SECONDS,
// then prints "answers seconds cpu": cpu is what the main thread of process SERVER used meanwhile, in seconds. One thread,
// so that it takes one core. Bytes are those of frames, length prefix included.
//   client PORT CONNECTIONS DEPTH REQUEST_BYTES ANSWER_BYTES SECONDS SERVER
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static void die(const char *what) {
  perror(what);
  exit(1);
}

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec + t.tv_nsec / 1e9;
}

static double cpu_of(const char *pid) {
  char path[64];
  unsigned long long ns = 0;
  snprintf(path, sizeof(path), "/proc/%s/schedstat", pid);
  FILE *file = fopen(path, "r");
  if (file == NULL || fscanf(file, "%llu", &ns) != 1) die(path);
  fclose(file);
  return ns / 1e9;
}

int main(int argc, char **argv) {
  if (argc != 8) return 2;
  const int port = atoi(argv[1]), connections = atoi(argv[2]), depth = atoi(argv[3]);
  const size_t request_bytes = strtoul(argv[4], NULL, 10), answer_bytes = strtoul(argv[5], NULL, 10);
  const double seconds = atof(argv[6]);
  char *requests = calloc(depth, request_bytes);
  for (int i = 0; i < depth; ++i) {
    const uint32_t length = htonl((uint32_t)(request_bytes - 4));
    memcpy(requests + i * request_bytes, &length, 4);
  }
  int *sockets = calloc(connections, sizeof(int));
  size_t *partial = calloc(connections, sizeof(size_t));
  const int set = epoll_create1(0);
  for (int i = 0; i < connections; ++i) {
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (connect(fd, (struct sockaddr *)&address, sizeof(address)) != 0) die("connect");
    const int on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    struct epoll_event event = {.events = EPOLLIN, .data.u32 = i};
    if (epoll_ctl(set, EPOLL_CTL_ADD, fd, &event) != 0) die("epoll_ctl");
    sockets[i] = fd;
  }
  const size_t buffer_bytes = 1 << 20;
  char *buffer = malloc(buffer_bytes);
  uint64_t answers = 0;
  const double cpu = cpu_of(argv[7]);
  const double start = now();
  double end = start;
  for (int i = 0; i < connections; ++i) {
    if (send(sockets[i], requests, depth * request_bytes, 0) != (ssize_t)(depth * request_bytes)) die("send");
  }
  for (uint64_t round = 0; (end = now()) - start < seconds || answers == 0; ++round) {
    struct epoll_event events[256];
    const int count = epoll_wait(set, events, 256, 1000);
    for (int i = 0; i < count; ++i) {
      const int which = events[i].data.u32;
      const ssize_t n = recv(sockets[which], buffer, buffer_bytes, MSG_DONTWAIT);
      if (n == 0) return 3;
      if (n < 0) {
        if (errno == EAGAIN) continue;
        die("recv");
      }
      partial[which] += n;
      const size_t whole = partial[which] / answer_bytes;
      partial[which] -= whole * answer_bytes;
      answers += whole;
      if (whole > 0 && send(sockets[which], requests, whole * request_bytes, 0) < 0) die("send");
    }
  }
  printf("%llu %.6f %.6f\n", (unsigned long long)answers, end - start, cpu_of(argv[7]) - cpu);
  return 0;
}
