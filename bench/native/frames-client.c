// Load for the benchmarks of brokers: sends the length-prefixed requests of FRAMES, round and round, keeping DEPTH of them
// in flight on each of CONNECTIONS connections, until COUNT answers came or SECONDS passed. Prints
// "answers seconds cpu least most p50 p99 p999": cpu is what all threads of process SERVER used meanwhile, in seconds; least and most
// are the bytes of the shortest and the longest answer, length prefix included; p50 and so on say how long answers took,
// from the request's first byte to the answer's last, us. One thread, so that it takes one core.
//   frames-client PORT CONNECTIONS DEPTH FRAMES COUNT SECONDS SERVER [HOST]
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum { kParts = 64, kAnswerBuffer = 1 << 20, kSamples = 1 << 22 };

struct frame {
  char *bytes;
  size_t length;
};

struct connection {
  int fd;
  int polled_out;
  size_t next, offset;  // the frame that is sent, and how much of it is
  int may_send;         // frames that may begin
  unsigned char head[4];
  size_t head_bytes, body_left;
  size_t answer;  // bytes of the answer that is received
  double *begun;  // when requests in flight began, a ring of DEPTH
  uint64_t sent, answered;
};

static struct frame *frames;
static size_t frame_count;
static uint64_t answers, least = UINT64_MAX, most;
static int set, depth;
static float *samples;  // of the first kSamples answers, us

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
  char path[512];
  unsigned long long sum = 0, ns;
  snprintf(path, sizeof(path), "/proc/%s/task", pid);
  DIR *tasks = opendir(path);
  if (tasks == NULL) die(path);
  for (struct dirent *task; (task = readdir(tasks)) != NULL;) {
    if (task->d_name[0] == '.') continue;
    snprintf(path, sizeof(path), "/proc/%s/task/%s/schedstat", pid, task->d_name);
    FILE *file = fopen(path, "r");
    if (file == NULL) continue;
    if (fscanf(file, "%llu", &ns) == 1) sum += ns;
    fclose(file);
  }
  closedir(tasks);
  return sum / 1e9;
}

static void load_frames(const char *path) {
  FILE *file = fopen(path, "rb");
  if (file == NULL) die(path);
  for (unsigned char prefix[4]; fread(prefix, 1, 4, file) == 4;) {
    uint32_t length;
    memcpy(&length, prefix, 4);
    length = ntohl(length);
    frames = realloc(frames, (frame_count + 1) * sizeof(*frames));
    struct frame *frame = &frames[frame_count++];
    frame->length = 4 + (size_t)length;
    frame->bytes = malloc(frame->length);
    memcpy(frame->bytes, prefix, 4);
    if (fread(frame->bytes + 4, 1, length, file) != length) die("the frames end early");
  }
  fclose(file);
  if (frame_count == 0) die("no frames");
}

static void send_some(struct connection *c) {
  while (c->may_send > 0) {
    struct iovec parts[kParts];
    int count = 0;
    size_t total = 0;
    for (size_t at = c->next; count < kParts && count < c->may_send; ++count) {
      const size_t skip = count == 0 ? c->offset : 0;
      parts[count].iov_base = frames[at].bytes + skip;
      parts[count].iov_len = frames[at].length - skip;
      total += parts[count].iov_len;
      at = at + 1 == frame_count ? 0 : at + 1;
    }
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = count};
    const ssize_t n = sendmsg(c->fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n < 0 && errno != EAGAIN) die("send");
    const double started = now();
    for (size_t left = n < 0 ? 0 : n; left > 0;) {
      if (c->offset == 0) c->begun[c->sent++ % depth] = started;
      const size_t rest = frames[c->next].length - c->offset;
      if (left < rest) {
        c->offset += left;
        break;
      }
      left -= rest;
      c->offset = 0;
      c->next = c->next + 1 == frame_count ? 0 : c->next + 1;
      --c->may_send;
    }
    if (n < (ssize_t)total) break;
  }
  const int wanted = c->may_send > 0;
  if (wanted == c->polled_out) return;
  c->polled_out = wanted;
  struct epoll_event event = {.events = EPOLLIN | (wanted ? EPOLLOUT : 0), .data.ptr = c};
  if (epoll_ctl(set, EPOLL_CTL_MOD, c->fd, &event) != 0) die("epoll_ctl");
}

// Counts the answers in what was received; only their lengths matter.
static void take(struct connection *c, const char *bytes, size_t length) {
  while (length > 0) {
    if (c->head_bytes < 4) {
      c->head[c->head_bytes++] = (unsigned char)*bytes++;
      --length;
      if (c->head_bytes < 4) continue;
      uint32_t body;
      memcpy(&body, c->head, 4);
      c->body_left = ntohl(body);
      c->answer = 4 + c->body_left;
    }
    const size_t part = length < c->body_left ? length : c->body_left;
    bytes += part;
    length -= part;
    c->body_left -= part;
    if (c->body_left > 0) return;
    c->head_bytes = 0;
    const double took = now() - c->begun[c->answered++ % depth];
    if (answers < kSamples) samples[answers] = (float)(took * 1e6);
    ++answers;
    ++c->may_send;
    if (c->answer < least) least = c->answer;
    if (c->answer > most) most = c->answer;
  }
}

static int by_value(const void *a, const void *b) {
  const float x = *(const float *)a, y = *(const float *)b;
  return (x > y) - (x < y);
}

int main(int argc, char **argv) {
  if (argc != 8 && argc != 9) return 2;
  signal(SIGPIPE, SIG_IGN);
  const int port = atoi(argv[1]), connections = atoi(argv[2]);
  depth = atoi(argv[3]);
  samples = malloc(kSamples * sizeof(*samples));
  load_frames(argv[4]);
  const uint64_t count = strtoull(argv[5], NULL, 10);
  const double seconds = atof(argv[6]);
  struct connection *all = calloc(connections, sizeof(*all));
  char *buffer = malloc(kAnswerBuffer);
  set = epoll_create1(0);
  for (int i = 0; i < connections; ++i) {
    struct connection *c = &all[i];
    c->fd = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    if (inet_pton(AF_INET, argc == 9 ? argv[8] : "127.0.0.1", &address.sin_addr) != 1) return 2;
    if (connect(c->fd, (struct sockaddr *)&address, sizeof(address)) != 0) die("connect");
    const int on = 1;
    setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = c};
    if (epoll_ctl(set, EPOLL_CTL_ADD, c->fd, &event) != 0) die("epoll_ctl");
    c->next = i % frame_count;
    c->may_send = depth;
    c->begun = calloc(depth, sizeof(*c->begun));
  }
  const double start = now(), cpu = cpu_of(argv[7]);
  for (int i = 0; i < connections; ++i) send_some(&all[i]);
  while (answers < count && (now() - start < seconds || answers == 0)) {
    struct epoll_event events[256];
    const int ready = epoll_wait(set, events, 256, 1000);
    for (int i = 0; i < ready; ++i) {
      struct connection *c = events[i].data.ptr;
      if ((events[i].events & ~EPOLLOUT) != 0) {
        const ssize_t n = recv(c->fd, buffer, kAnswerBuffer, MSG_DONTWAIT);
        if (n == 0) return 3;
        if (n < 0 && errno != EAGAIN) die("recv");
        if (n > 0) take(c, buffer, n);
      }
      if (c->may_send > 0) send_some(c);
    }
  }
  const double took = now() - start;
  const double used = cpu_of(argv[7]) - cpu;
  const size_t count_of_samples = answers < kSamples ? answers : kSamples;
  qsort(samples, count_of_samples, sizeof(*samples), by_value);
  const double ranks[] = {0.5, 0.99, 0.999};
  printf("%llu %.6f %.6f %llu %llu", (unsigned long long)answers, took, used, (unsigned long long)least,
         (unsigned long long)most);
  for (int i = 0; i < 3; ++i) printf(" %.1f", samples[(size_t)(ranks[i] * (count_of_samples - 1))]);
  printf("\n");
  return 0;
}
