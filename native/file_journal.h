// Writes down what is done to files, through the seam of file.h, so that a test can tell what a disk may hold after a
// power cut. For tests.
#pragma once

#include <string>

namespace broadsheet {

// From now on every change of a file or folder, and every sync, is written down, in the order in which they took
// effect. Faults (file_faults.h) lie below: what failed is not there, syncs aside. For the whole process.
void begin_file_journal();
void end_file_journal();

// What was written down since the last call: events end to end. Each is four doubles in the machine's order (kind,
// descriptor, number, length of the bytes), then the bytes.
//
//   kind        descriptor  number            bytes
//   0 open      yes         flags of open(2)  path
//   1 close     yes
//   2 write     yes         position          what was written
//   3 truncate  yes         length
//   4 sync      yes         its own           (it begins)
//   5 synced    yes         that of its sync
//   6 mkdir                                   path
//   7 rename                                  old path, NUL, new path
//   8 unlink                                  path
//   9 rmdir                                   path
//   10 failed   yes         that of its sync
std::string take_file_journal();

}  // namespace broadsheet
