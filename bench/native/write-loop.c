// The least that an append can do: writes TOTAL bytes in pieces of PIECE, PIECES of them per call of pwritev(2), to files
// of FILE bytes in DIR, from memory of 8 MiB that goes round. Prints "seconds cpu". Making the files is part of it,
// removing them is not.
//   write-loop DIR PIECE PIECES TOTAL FILE
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

static double seconds_of(clockid_t clock) {
  struct timespec t;
  clock_gettime(clock, &t);
  return t.tv_sec + t.tv_nsec / 1e9;
}

int main(int argc, char **argv) {
  if (argc != 6) return 2;
  const size_t piece = strtoul(argv[2], NULL, 10), pieces = strtoul(argv[3], NULL, 10);
  const size_t total = strtoul(argv[4], NULL, 10), limit = strtoul(argv[5], NULL, 10);
  const size_t memory_bytes = 8 << 20, slots = memory_bytes / piece;
  struct iovec *parts = calloc(pieces, sizeof(struct iovec));
  char *memory = malloc(memory_bytes);
  if (parts == NULL || memory == NULL || slots == 0) return 2;
  memset(memory, 'b', memory_bytes);
  char path[4096];
  int files = 0, fd = -1;
  size_t slot = 0, position = limit;
  const double start = seconds_of(CLOCK_MONOTONIC), cpu = seconds_of(CLOCK_PROCESS_CPUTIME_ID);
  for (size_t done = 0; done < total; done += piece * pieces) {
    if (position + piece * pieces > limit) {
      snprintf(path, sizeof(path), "%s/bare-%d", argv[1], files++);
      if (fd >= 0) close(fd);
      fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
      if (fd < 0) return 1;
      position = 0;
    }
    for (size_t i = 0; i < pieces; ++i) {
      parts[i].iov_base = memory + slot * piece;
      parts[i].iov_len = piece;
      slot = slot + 1 == slots ? 0 : slot + 1;
    }
    if (pwritev(fd, parts, (int)pieces, (off_t)position) != (ssize_t)(piece * pieces)) return 1;
    position += piece * pieces;
  }
  printf("%.6f %.6f\n", seconds_of(CLOCK_MONOTONIC) - start, seconds_of(CLOCK_PROCESS_CPUTIME_ID) - cpu);
  for (int i = 0; i < files; ++i) {
    snprintf(path, sizeof(path), "%s/bare-%d", argv[1], i);
    unlink(path);
  }
  return 0;
}
