// Operations on whole files and folders, each durable when it returns: for checkpoints, properties and the like. They
// wait for the disk, so they run on I/O threads.
#pragma once

#include <string>
#include <vector>

#include "file.h"
#include "status.h"

namespace broadsheet {

// kLimit when it is larger than max_bytes.
Status read_whole(const std::string& path, int64_t max_bytes, std::string* out);
// A temporary file beside it (path + ".tmp"), fdatasync, rename, fsync of the folder. On failure the old content
// stays, unless it is the last step that failed: then either may be there after a crash.
Status write_atomic(const std::string& path, const std::string& data);
// Makes the folder if missing and the file in it, which must not exist; with it, if a path is given, one beside it that
// is empty. On failure what was made is removed again. The name of a folder that was made is not durable yet: many are
// made at a time, and one sync of what holds them does for all.
Status create_in_folder(const std::string& path, const std::string& data, const std::string& empty, bool* made);
// With its parents, as far as they are missing; existing is no error.
Status make_directories(const std::string& path);
Status rename_durable(const std::string& from, const std::string& to);
// Missing is no error.
Status remove_durable(const std::string& path);
// A folder with all in it, or a file; missing is no error. Links are removed, not followed.
Status remove_tree(const std::string& path);

}  // namespace broadsheet
