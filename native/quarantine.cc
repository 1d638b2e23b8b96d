#include "quarantine.h"

#include <algorithm>

#include "log.h"

namespace broadsheet {
namespace {

constexpr int64_t kChunkBytes = 1 << 20;
constexpr int kNamesTried = 10'000;

Status all_zero(const File& file, int64_t position, int64_t end, bool* zero) {
  std::vector<uint8_t> chunk;
  *zero = true;
  while (*zero && position < end) {
    chunk.resize(static_cast<size_t>(std::min(kChunkBytes, end - position)));
    if (Status status = file.pread_all(chunk.data(), chunk.size(), position); !status.ok()) return status;
    *zero = std::all_of(chunk.begin(), chunk.end(), [](uint8_t byte) { return byte == 0; });
    position += static_cast<int64_t>(chunk.size());
  }
  return Status::Ok();
}

}  // namespace

Status Quarantine::keep_tail(const std::string& name, const File& file, int64_t position, int64_t end) {
  bool zero = false;
  if (Status status = all_zero(file, position, end, &zero); !status.ok() || zero) return status;
  std::string kept;
  if (Status status = free_name(name, position, &kept); !status.ok()) return status;
  const std::string temporary = dir_ + "/" + kept + ".tmp";
  Status status = copy(file, position, end, temporary);
  if (status.ok()) status = rename_path(temporary, dir_ + "/" + kept);
  if (status.ok()) status = sync_directory(dir_);
  if (status.ok()) {
    kept_.push_back(kept);
    return status;
  }
  if (!passing(status)) return status;
  lost_ = status.context;
  Status removed = remove_file(temporary);
  return removed.code == Code::kNotFound ? Status::Ok() : removed;
}

Status Quarantine::keep_whole(const std::string& name) {
  const std::string path = dir_ + "/" + name;
  std::shared_ptr<File> file;
  int64_t size = 0;
  bool zero = false;
  if (Status status = File::open(path, OpenMode::kRead, &file); !status.ok()) return status;
  if (Status status = file->size(&size); !status.ok()) return status;
  if (Status status = all_zero(*file, 0, size, &zero); !status.ok()) return status;
  if (zero) return remove_file(path);
  std::string kept;
  if (Status status = free_name(name, 0, &kept); !status.ok()) return status;
  kept_.push_back(kept);
  return rename_path(path, dir_ + "/" + kept);
}

std::string Quarantine::text() const {
  std::string text;
  if (!kept_.empty()) text = "; what was cut is kept in " + kept_.front();
  if (kept_.size() > 1) text.append(" and ").append(std::to_string(kept_.size() - 1)).append(" more");
  if (!lost_.empty()) text.append("; not all that was cut could be kept: ").append(lost_);
  return text;
}

Status Quarantine::copy(const File& file, int64_t position, int64_t end, const std::string& to) {
  std::shared_ptr<File> out;
  if (Status status = File::open(to, OpenMode::kCreate, &out); !status.ok()) return status;
  // A start before may have been killed while it wrote.
  if (Status status = out->truncate(0); !status.ok()) return status;
  std::vector<uint8_t> chunk;
  for (int64_t at = position; at < end; at += static_cast<int64_t>(chunk.size())) {
    chunk.resize(static_cast<size_t>(std::min(kChunkBytes, end - at)));
    if (Status status = file.pread_all(chunk.data(), chunk.size(), at); !status.ok()) return status;
    if (Status status = out->pwrite_all(chunk.data(), chunk.size(), at - position); !status.ok()) return status;
  }
  return out->fsync();
}

// What an earlier cut left is not written over.
Status Quarantine::free_name(const std::string& name, int64_t position, std::string* out) const {
  std::string stem = name;
  stem.append(".").append(std::to_string(position));
  for (int i = 0; i < kNamesTried; ++i) {
    *out = stem;
    if (i > 0) out->append(".").append(std::to_string(i));
    out->append(".quarantine");
    struct stat facts;
    Status status = stat_path(dir_ + "/" + *out, &facts);
    if (status.code == Code::kNotFound) return Status::Ok();
    if (!status.ok()) return status;
  }
  return Status::Of(Code::kLimit, dir_ + " holds too many files like " + *out);
}

}  // namespace broadsheet
