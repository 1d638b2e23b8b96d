#include "status.h"

#include <cerrno>
#include <cstring>

namespace broadsheet {

namespace {

Code code_of(int error_number) {
  switch (error_number) {
    case ENOENT:
      return Code::kNotFound;
    case ENOSPC:
    case EDQUOT:
      return Code::kNoSpace;
    case EMFILE:
    case ENFILE:
    case ENOMEM:
      return Code::kLimit;
    case EADDRINUSE:
      return Code::kAddressInUse;
    default:
      return Code::kIo;
  }
}

// Two variants of strerror_r: GNU's returns the text, which may or may not lie in the buffer; that of POSIX, and musl, fills
// the buffer and returns an error number.
[[maybe_unused]] const char* text_of(const char* text, const char*) { return text; }
[[maybe_unused]] const char* text_of(int, const char* buffer) { return buffer; }

}  // namespace

Status Status::FromErrno(int error_number, std::string context) {
  char buffer[128] = "";
  context += ": ";
  context += text_of(strerror_r(error_number, buffer, sizeof buffer), buffer);
  return {code_of(error_number), error_number, std::move(context)};
}

}  // namespace broadsheet
