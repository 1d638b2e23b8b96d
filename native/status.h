// Status: the one way in which native code reports failure. Nothing here throws.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

namespace broadsheet {

// Stable codes. Their negated values cross to JavaScript as results of hot calls, their names as
// `BroadsheetError.code`; addon.cc exports the table, so native.ts declares no number of its own.
#define BROADSHEET_CODES(X)                                                              \
  X(kOk, 0, "OK")                                                                        \
  X(kIo, 1, "IO")                             /* a system call failed; errno says how */ \
  X(kNoSpace, 2, "NO_SPACE")                  /* ENOSPC, EDQUOT */                       \
  X(kNotFound, 3, "NOT_FOUND")                /* ENOENT */                               \
  X(kLocked, 4, "LOCKED")                     /* another process holds the directory */  \
  X(kClosed, 5, "CLOSED")                     /* used after close */                     \
  X(kInvalidArgument, 6, "INVALID_ARGUMENT")  /* a caller's mistake */                   \
  X(kCorrupt, 7, "CORRUPT")                   /* bytes on disk that do not check out */  \
  X(kOffsetOutOfRange, 8, "OFFSET_OUT_OF_RANGE")                                         \
  X(kCold, 9, "COLD")                         /* not in the page cache: warm, then retry */ \
  X(kBatchCorrupt, 10, "BATCH_CORRUPT")       /* length, magic or CRC: CORRUPT_MESSAGE */ \
  X(kBatchInvalid, 11, "BATCH_INVALID")       /* well framed nonsense: INVALID_RECORD */ \
  X(kBatchTooLarge, 12, "BATCH_TOO_LARGE")                                               \
  X(kLimit, 13, "LIMIT")                      /* a budget is used up: EMFILE, ENOMEM, maps */ \
  X(kAddressInUse, 14, "ADDRESS_IN_USE")                                                 \
  X(kOffline, 15, "OFFLINE")                  /* the log failed earlier and takes no more */ \
  X(kTimestampInvalid, 16, "TIMESTAMP_INVALID")

enum class Code : int32_t {
#define X(name, value, text) name = value,
  BROADSHEET_CODES(X)
#undef X
};

struct [[nodiscard]] Status {
  Code code = Code::kOk;
  int error_number = 0;  // errno, 0 when no system call was involved
  std::string context;   // what was being done and to what, for people

  bool ok() const { return code == Code::kOk; }
  static Status Ok() { return {}; }
  static Status Of(Code code, std::string context) { return {code, 0, std::move(context)}; }
  // Chooses the code from errno (ENOENT, ENOSPC, EMFILE ... else kIo).
  static Status FromErrno(int error_number, std::string context);
};

}  // namespace broadsheet
