/* A file system that hands every call on to a folder, and fails those that a file of rules names.
 *
 * failing-fs RULES FOLDER MOUNTPOINT [options of libfuse]
 *
 * RULES is read anew for each read, write and sync. A line has an operation (read, write, sync), an errno, or 0 for one that
 * moves only half of the bytes, and what the path must contain. */
#define FUSE_USE_VERSION 31
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fuse.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

static const char *rules_path;
static int direct_io;
static int root = -1;

/* Paths of libfuse begin with a slash; below the folder they are relative. */
static const char *below(const char *path) { return path[1] == '\0' ? "." : path + 1; }

static int result(long value) { return value < 0 ? -errno : (int)value; }

/* The first rule that fits: -1 for none. */
static int fault(const char *operation, const char *path) {
  FILE *rules = fopen(rules_path, "r");
  if (rules == NULL) return -1;
  char name[16], part[256];
  int number, found = -1;
  while (found < 0 && fscanf(rules, "%15s %d %255s", name, &number, part) == 3) {
    if (strcmp(name, operation) == 0 && strstr(path, part) != NULL) found = number;
  }
  fclose(rules);
  return found;
}

static int do_getattr(const char *path, struct stat *out, struct fuse_file_info *file) {
  return result(file != NULL ? fstat((int)file->fh, out) : fstatat(root, below(path), out, AT_SYMLINK_NOFOLLOW));
}

static int do_mkdir(const char *path, mode_t mode) { return result(mkdirat(root, below(path), mode)); }
static int do_unlink(const char *path) { return result(unlinkat(root, below(path), 0)); }
static int do_rmdir(const char *path) { return result(unlinkat(root, below(path), AT_REMOVEDIR)); }
static int do_rename(const char *from, const char *to, unsigned flags) {
  return result(renameat2(root, below(from), root, below(to), flags));
}
static int do_link(const char *from, const char *to) { return result(linkat(root, below(from), root, below(to), 0)); }
static int do_chmod(const char *path, mode_t mode, struct fuse_file_info *file) {
  (void)file;
  return result(fchmodat(root, below(path), mode, 0));
}
static int do_utimens(const char *path, const struct timespec times[2], struct fuse_file_info *file) {
  (void)file;
  return result(utimensat(root, below(path), times, AT_SYMLINK_NOFOLLOW));
}
static int do_truncate(const char *path, off_t size, struct fuse_file_info *file) {
  if (file != NULL) return result(ftruncate((int)file->fh, size));
  const int fd = openat(root, below(path), O_WRONLY);
  if (fd < 0) return -errno;
  const int done = result(ftruncate(fd, size));
  close(fd);
  return done;
}

static int open_with(const char *path, struct fuse_file_info *file, int flags, mode_t mode) {
  const int fd = openat(root, below(path), flags, mode);
  if (fd < 0) return -errno;
  file->fh = (uint64_t)fd;
  file->direct_io = direct_io != 0;
  return 0;
}
static int do_open(const char *path, struct fuse_file_info *file) {
  return open_with(path, file, file->flags & ~(O_CREAT | O_EXCL | O_APPEND), 0);
}
static int do_create(const char *path, mode_t mode, struct fuse_file_info *file) {
  return open_with(path, file, file->flags & ~O_APPEND, mode);
}
static int do_release(const char *path, struct fuse_file_info *file) {
  (void)path;
  return result(close((int)file->fh));
}

static int do_read(const char *path, char *into, size_t size, off_t at, struct fuse_file_info *file) {
  const int number = fault("read", path);
  if (number > 0) return -number;
  if (number == 0 && size > 1) size /= 2;
  return result(pread((int)file->fh, into, size, at));
}
static int do_write(const char *path, const char *bytes, size_t size, off_t at, struct fuse_file_info *file) {
  const int number = fault("write", path);
  if (number > 0) return -number;
  if (number == 0 && size > 1) size /= 2;
  return result(pwrite((int)file->fh, bytes, size, at));
}
static int do_fsync(const char *path, int data_only, struct fuse_file_info *file) {
  const int number = fault("sync", path);
  if (number > 0) return -number;
  return result(data_only ? fdatasync((int)file->fh) : fsync((int)file->fh));
}
static int do_fsyncdir(const char *path, int data_only, struct fuse_file_info *file) {
  (void)data_only, (void)file;
  const int number = fault("sync", path);
  if (number > 0) return -number;
  const int fd = openat(root, below(path), O_RDONLY | O_DIRECTORY);
  if (fd < 0) return -errno;
  const int done = result(fsync(fd));
  close(fd);
  return done;
}

static int do_readdir(const char *path, void *list, fuse_fill_dir_t add, off_t at, struct fuse_file_info *file,
                      enum fuse_readdir_flags flags) {
  (void)at, (void)file, (void)flags;
  const int fd = openat(root, below(path), O_RDONLY | O_DIRECTORY);
  if (fd < 0) return -errno;
  DIR *folder = fdopendir(fd);
  for (struct dirent *entry; (entry = readdir(folder)) != NULL;) add(list, entry->d_name, NULL, 0, 0);
  closedir(folder);
  return 0;
}
static int do_statfs(const char *path, struct statvfs *out) {
  (void)path;
  return result(fstatvfs(root, out));
}

static void *start(struct fuse_conn_info *connection, struct fuse_config *config) {
  (void)connection;
  /* Two names of a file are one file. */
  config->use_ino = 1;
  return NULL;
}

static const struct fuse_operations operations = {
    .init = start,
    .getattr = do_getattr, .mkdir = do_mkdir,     .unlink = do_unlink,     .rmdir = do_rmdir,
    .rename = do_rename,   .link = do_link,       .chmod = do_chmod,       .utimens = do_utimens,
    .truncate = do_truncate, .open = do_open,     .create = do_create,     .release = do_release,
    .read = do_read,       .write = do_write,     .fsync = do_fsync,       .fsyncdir = do_fsyncdir,
    .readdir = do_readdir, .statfs = do_statfs,
};

int main(int count, char **arguments) {
  if (count < 4) {
    fprintf(stderr, "usage: failing-fs RULES FOLDER MOUNTPOINT [options]\n");
    return 2;
  }
  rules_path = arguments[1];
  root = open(arguments[2], O_RDONLY | O_DIRECTORY);
  if (root < 0) {
    perror(arguments[2]);
    return 1;
  }
  direct_io = getenv("FAILING_FS_DIRECT_IO") != NULL;
  /* What is left is for libfuse. */
  arguments[2] = arguments[0];
  return fuse_main(count - 2, arguments + 2, &operations, NULL);
}
