// Slots of the Float64Array in which hot calls leave their results. addon.cc exports name -> index, and
// src/native.ts asserts that every name it declares is there: a number is written down nowhere else.
#pragma once

#include <cstddef>

namespace broadsheet {

#define BROADSHEET_SLOTS(X)                                                                        \
  /* facts of a batch's header: BatchInfo of src/log/log.ts, and two more */                       \
  X(kBaseOffset, "baseOffset")                                                                     \
  X(kLastOffset, "lastOffset")                                                                     \
  X(kBaseTimestamp, "baseTimestamp")                                                               \
  X(kMaxTimestamp, "maxTimestamp")                                                                 \
  X(kProducerId, "producerId")                                                                     \
  X(kProducerEpoch, "producerEpoch")                                                               \
  X(kBaseSequence, "baseSequence")                                                                 \
  X(kRecordCount, "recordCount")                                                                   \
  X(kAttributes, "attributes")                                                                     \
  X(kLeaderEpoch, "leaderEpoch")                                                                   \
  X(kSizeInBytes, "sizeInBytes")             /* 0: no header was there to be read */               \
  X(kCompression, "compression")                                                                   \
  /* what a walk over records found: RecordsFacts of record_batch.h */                             \
  X(kWalked, "walked")                       /* 1 when the records were walked, else 0 */          \
  X(kRecordsMaxTimestamp, "recordsMaxTimestamp")                                                   \
  X(kRecordsMaxIndex, "recordsMaxIndex")     /* the first record that has it */                    \
  X(kNullKeyIndex, "nullKeyIndex")           /* the first record without a key, -1: none */        \
  X(kInvalidIndex, "invalidIndex")           /* the first record that is refused, -1: none */      \
  X(kInvalidTimestamp, "invalidTimestamp")   /* of that record, when it lies outside the bounds */ \
  X(kTombstones, "tombstones")               /* 1: one without a value stays in the batch, else 0 */   \
  /* the FileRange that a read found */                                                            \
  X(kSegment, "segment")                                                                           \
  X(kPosition, "position")                                                                         \
  X(kLength, "length")

enum class Slot : size_t {
#define X(name, text) name,
  BROADSHEET_SLOTS(X)
#undef X
      kCount
};

}  // namespace broadsheet
