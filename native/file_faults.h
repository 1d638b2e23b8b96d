// Makes calls about files fail on purpose, through the seam of file.h. For tests.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "file.h"
#include "status.h"

namespace broadsheet {

// One call of SystemCalls goes wrong: after `skip` more calls that go well, `times` of them fail with error_number, or,
// if that is 0 (pread, preadv2, pwritev, sendfile), move at most `limit` bytes.
struct FileFault {
  int64_t skip = 0;
  int64_t times = 1;
  int error_number = 0;
  size_t limit = 0;
};

// For the whole process; one fault per call, the last one counts. kInvalidArgument for a call that SystemCalls lacks.
Status set_file_fault(const std::string& call, const FileFault& fault);
void clear_file_faults();
// How many calls will go well before the fault strikes; -1 when none is set for that call, or it has struck.
int64_t file_fault_skips(const std::string& call);

// The calls as they are, but for the faults that are set.
const SystemCalls& faulty_calls();
// A table that calls faulty_calls() is put in place of it; nullptr takes it away.
void watch_faulty_calls(const SystemCalls* watcher);

}  // namespace broadsheet
