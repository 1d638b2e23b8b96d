// What recovery takes off a log is kept: in files beside it whose names end in .quarantine. Nothing reads them, and they
// go with the partition's folder only. What is all zeros is not kept: a power cut leaves that, and there is nothing in it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "file.h"

namespace broadsheet {

class Quarantine {
 public:
  explicit Quarantine(const std::string& dir) : dir_(dir) {}

  // Copies the bytes of a segment's file from `position` to `end`; durable when it returns. Where there is no space for them they
  // are not kept, which is no failure.
  Status keep_tail(const std::string& name, const File& file, int64_t position, int64_t end);
  // Renames a segment's file, or removes it; durable with the next sync of the folder.
  Status keep_whole(const std::string& name);
  // For the report; empty if nothing was to be kept.
  std::string text() const;

 private:
  Status copy(const File& file, int64_t position, int64_t end, const std::string& to);
  Status free_name(const std::string& name, int64_t position, std::string* out) const;

  const std::string dir_;
  std::vector<std::string> kept_;
  std::string lost_;
};

}  // namespace broadsheet
