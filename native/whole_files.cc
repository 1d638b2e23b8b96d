#include "whole_files.h"

#include <cerrno>

namespace broadsheet {

namespace {

// What is tidied up after a failure may fail as well; the first failure is the one to tell.
void ignore(const Status&) {}

bool already_there(const Status& status) { return status.error_number == EEXIST; }

// Its name is not durable yet.
Status make_one(const std::string& path, bool* made) {
  Status status = make_directory(path);
  *made = status.ok();
  if (status.ok() || !already_there(status)) return status;
  struct stat facts;
  if (Status found = stat_path(path, &facts); !found.ok()) return found;
  return S_ISDIR(facts.st_mode) ? Status::Ok() : Status::FromErrno(ENOTDIR, "mkdir " + path);
}

Status remove_within(const std::string& path) {
  // A folder is the one thing that unlink refuses (EISDIR; EPERM by POSIX); a link to one it removes.
  Status status = remove_file(path);
  if (status.ok() || status.code == Code::kNotFound) return Status::Ok();
  if (status.error_number != EISDIR && status.error_number != EPERM) return status;

  std::vector<DirectoryEntry> entries;
  Status listed = list_directory(path, &entries);
  if (!listed.ok()) return listed.error_number == ENOTDIR ? status : listed;
  for (const DirectoryEntry& entry : entries) {
    if (Status removed = remove_within(path + "/" + entry.name); !removed.ok()) return removed;
  }
  return remove_directory(path);
}

}  // namespace

Status read_whole(const std::string& path, int64_t max_bytes, std::string* out) {
  std::shared_ptr<File> file;
  int64_t size = 0;
  if (Status status = File::open(path, OpenMode::kRead, &file); !status.ok()) return status;
  if (Status status = file->size(&size); !status.ok()) return status;
  if (size > max_bytes) {
    return Status::Of(Code::kLimit, "read " + path + ": it has " + std::to_string(size) + " bytes, more than " +
                                        std::to_string(max_bytes));
  }
  out->resize(static_cast<size_t>(size));
  size_t got = 0;
  Status status = file->pread_some(out->data(), out->size(), 0, &got);
  out->resize(got);
  return status;
}

Status write_atomic(const std::string& path, const std::string& data) {
  const std::string temporary = path + ".tmp";
  std::shared_ptr<File> file;
  if (Status status = File::open(temporary, OpenMode::kCreate, &file); !status.ok()) return status;
  Status status = file->truncate(0);
  if (status.ok()) status = file->pwrite_all(data.data(), data.size(), 0);
  if (status.ok()) status = file->fdatasync();
  file.reset();
  if (status.ok()) status = rename_path(temporary, path);
  if (!status.ok()) {
    ignore(remove_file(temporary));
    return status;
  }
  return sync_directory(parent_of(path));
}

Status create_in_folder(const std::string& path, const std::string& data, const std::string& empty, bool* made) {
  const std::string folder = parent_of(path);
  if (Status status = make_one(folder, made); !status.ok()) return status;
  std::shared_ptr<File> file;
  Status status = File::open(path, OpenMode::kCreateNew, &file);
  const bool created = status.ok();
  if (status.ok()) status = file->pwrite_all(data.data(), data.size(), 0);
  if (status.ok()) status = file->fsync();
  file.reset();
  bool emptied = false;
  if (status.ok() && !empty.empty()) {
    status = File::open(empty, OpenMode::kCreateNew, &file);
    emptied = status.ok();
    file.reset();
  }
  if (status.ok()) status = sync_directory(folder);
  if (!status.ok()) {
    if (emptied) ignore(remove_file(empty));
    if (created) ignore(remove_file(path));
    if (*made) ignore(remove_directory(folder));
  }
  return status;
}

Status make_directories(const std::string& path) {
  bool made;
  const std::string parent = parent_of(path);
  Status status = make_one(path, &made);
  if (status.code == Code::kNotFound && parent != path) {
    if (Status above = make_directories(parent); !above.ok()) return above;
    status = make_one(path, &made);
  }
  return status.ok() && made ? sync_directory(parent) : status;
}

Status rename_durable(const std::string& from, const std::string& to) {
  if (Status status = rename_path(from, to); !status.ok()) return status;
  const std::string source = parent_of(from);
  const std::string target = parent_of(to);
  if (Status status = sync_directory(target); !status.ok()) return status;
  return source == target ? Status::Ok() : sync_directory(source);
}

Status remove_durable(const std::string& path) {
  Status status = remove_file(path);
  if (status.code == Code::kNotFound) return Status::Ok();
  if (!status.ok()) return status;
  return sync_directory(parent_of(path));
}

Status remove_tree(const std::string& path) {
  if (Status status = remove_within(path); !status.ok()) return status;
  Status status = sync_directory(parent_of(path));
  // Nothing was there, not even the folder around it.
  return status.code == Code::kNotFound ? Status::Ok() : status;
}

}  // namespace broadsheet
