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

}  // namespace

Status Status::FromErrno(int error_number, std::string context) {
  char buffer[128];
  // The GNU variant: it returns the text, which may or may not lie in the buffer.
  const char* text = strerror_r(error_number, buffer, sizeof buffer);
  context += ": ";
  context += text;
  return {code_of(error_number), error_number, std::move(context)};
}

}  // namespace broadsheet
