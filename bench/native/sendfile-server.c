// The least that a server can do: for each request of REQUEST_BYTES on one connection, a header of HEADER_BYTES and
// ANSWER_BYTES of FILE by sendfile(2), from offsets that go round. Prints its port.
//   sendfile-server FILE REQUEST_BYTES HEADER_BYTES ANSWER_BYTES
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

int main(int argc, char **argv) {
  if (argc != 5) return 2;
  const size_t request = strtoul(argv[2], NULL, 10), head = strtoul(argv[3], NULL, 10);
  const size_t answer = strtoul(argv[4], NULL, 10);
  signal(SIGPIPE, SIG_IGN);
  const int file = open(argv[1], O_RDONLY);
  struct stat st;
  if (file < 0 || fstat(file, &st) != 0) return 1;
  const int listener = socket(AF_INET, SOCK_STREAM, 0);
  const int on = 1;
  setsockopt(listener, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  struct sockaddr_in address = {.sin_family = AF_INET};
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof(address);
  if (bind(listener, (struct sockaddr *)&address, length) != 0 || listen(listener, 16) != 0) return 1;
  getsockname(listener, (struct sockaddr *)&address, &length);
  printf("%d\n", ntohs(address.sin_port));
  fflush(stdout);
  char *buffer = calloc(1, request > head ? request : head);
  for (;;) {
    const int fd = accept(listener, NULL, NULL);
    if (fd < 0) return 1;
    off_t position = 0;
    for (;;) {
      size_t have = 0;
      while (have < request) {
        const ssize_t n = recv(fd, buffer, request - have, 0);
        if (n <= 0) break;
        have += n;
      }
      if (have < request || send(fd, buffer, head, MSG_NOSIGNAL | MSG_MORE) != (ssize_t)head) break;
      if (position + (off_t)answer > st.st_size) position = 0;
      size_t left = answer;
      while (left > 0) {
        const ssize_t n = sendfile(fd, file, &position, left);
        if (n <= 0) break;
        left -= n;
      }
      if (left > 0) break;
    }
    close(fd);
  }
}
