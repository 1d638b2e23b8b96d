// The least that a broker can do, over any number of connections. Prints its port.
//   bare-broker produce FILE ANSWER_BYTES          each request is written to the end of FILE, then answered
//   bare-broker fetch FILE ANSWER_BYTES BYTES      each request is answered, with BYTES of FILE by sendfile(2), from
//                                                  offsets that go round
// ANSWER_BYTES: of the answer without the part of FILE, its length prefix included. FILE is cut off at 256 MiB.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

enum { kReceive = 1 << 20, kSendfile = 256 << 10, kCut = 256 << 20 };

struct connection {
  int fd, blocked;
  char *buffer;
  size_t used, capacity;
  size_t owed;               // answers that have not begun
  size_t head_left, file_left;
  off_t position;
};

static int set, file, fetches;
static size_t answer_bytes, range_bytes;
static off_t end, next_range;
static char *answer;

// 0 when the connection is broken.
static int answer_some(struct connection *c) {
  for (;;) {
    if (c->head_left == 0 && c->file_left == 0) {
      if (c->owed == 0) break;
      --c->owed;
      c->head_left = answer_bytes;
      c->file_left = range_bytes;
      if (next_range + (off_t)range_bytes > end) next_range = 0;
      c->position = next_range;
      next_range += range_bytes;
    }
    ssize_t n;
    if (c->head_left > 0) {
      n = send(c->fd, answer + (answer_bytes - c->head_left), c->head_left,
               MSG_NOSIGNAL | MSG_DONTWAIT | (c->file_left > 0 ? MSG_MORE : 0));
      if (n > 0) c->head_left -= n;
    } else {
      n = sendfile(c->fd, file, &c->position, c->file_left < kSendfile ? c->file_left : kSendfile);
      if (n > 0) c->file_left -= n;
    }
    if (n == 0 || (n < 0 && errno != EAGAIN)) return 0;
    if (n < 0) break;
  }
  const int blocked = c->head_left > 0 || c->file_left > 0;
  if (blocked != c->blocked) {
    c->blocked = blocked;
    struct epoll_event event = {.events = EPOLLIN | (blocked ? EPOLLOUT : 0), .data.ptr = c};
    epoll_ctl(set, EPOLL_CTL_MOD, c->fd, &event);
  }
  return 1;
}

static int receive_some(struct connection *c) {
  if (c->capacity - c->used < kReceive / 2) {
    c->capacity = c->capacity == 0 ? kReceive : 2 * c->capacity;
    c->buffer = realloc(c->buffer, c->capacity);
  }
  const size_t room = c->capacity - c->used;
  const ssize_t n = recv(c->fd, c->buffer + c->used, room < kReceive ? room : kReceive, MSG_DONTWAIT);
  if (n <= 0) return n < 0 && errno == EAGAIN;
  c->used += n;
  size_t at = 0;
  while (c->used - at >= 4) {
    uint32_t length;
    memcpy(&length, c->buffer + at, 4);
    length = ntohl(length);
    if (c->used - at - 4 < length) break;
    at += 4 + (size_t)length;
    ++c->owed;
  }
  if (!fetches && at > 0) {
    if (end + (off_t)at > kCut) end = ftruncate(file, 0);
    if (pwrite(file, c->buffer, at, end) != (ssize_t)at) exit(1);
    end += at;
  }
  memmove(c->buffer, c->buffer + at, c->used - at);
  c->used -= at;
  return 1;
}

int main(int argc, char **argv) {
  if (argc < 4) return 2;
  fetches = strcmp(argv[1], "fetch") == 0;
  if (argc != (fetches ? 5 : 4)) return 2;
  signal(SIGPIPE, SIG_IGN);
  file = open(argv[2], fetches ? O_RDONLY : O_RDWR | O_CREAT | O_TRUNC, 0644);
  struct stat st;
  if (file < 0 || fstat(file, &st) != 0) return 1;
  end = st.st_size;
  answer_bytes = strtoul(argv[3], NULL, 10);
  if (fetches) range_bytes = strtoul(argv[4], NULL, 10);
  answer = calloc(1, answer_bytes);
  const uint32_t prefix = htonl((uint32_t)(answer_bytes + range_bytes - 4));
  memcpy(answer, &prefix, 4);
  const int listener = socket(AF_INET, SOCK_STREAM, 0);
  const int on = 1;
  struct sockaddr_in address = {.sin_family = AF_INET};
  address.sin_addr.s_addr = htonl(INADDR_ANY);
  socklen_t size = sizeof(address);
  if (bind(listener, (struct sockaddr *)&address, size) != 0 || listen(listener, 128) != 0) return 1;
  getsockname(listener, (struct sockaddr *)&address, &size);
  printf("%d\n", ntohs(address.sin_port));
  fflush(stdout);
  set = epoll_create1(0);
  struct epoll_event event = {.events = EPOLLIN, .data.ptr = NULL};
  epoll_ctl(set, EPOLL_CTL_ADD, listener, &event);
  for (;;) {
    struct epoll_event events[256];
    const int ready = epoll_wait(set, events, 256, -1);
    for (int i = 0; i < ready; ++i) {
      struct connection *c = events[i].data.ptr;
      if (c == NULL) {
        const int fd = accept(listener, NULL, NULL);
        if (fd < 0) continue;
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
        c = calloc(1, sizeof(*c));
        c->fd = fd;
        event.data.ptr = c;
        epoll_ctl(set, EPOLL_CTL_ADD, fd, &event);
        continue;
      }
      const int readable = (events[i].events & ~EPOLLOUT) != 0;
      if ((readable && !receive_some(c)) || !answer_some(c)) {
        close(c->fd);
        free(c->buffer);
        free(c);
      }
    }
  }
}
