#include "cleaner.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "record_reader.h"

namespace broadsheet {

namespace {

// Records whose slots are fetched from memory side by side.
constexpr size_t kAhead = 16;

struct Record {
  const uint8_t* start;
  const uint8_t* end;
  const uint8_t* key;
  int32_t key_length;  // < 0: none
  bool tombstone;
  double offset;
  double timestamp_delta;
  Chaskey::Words digest;
};

// Walks over records, kAhead at a time.
class RecordWalk {
 public:
  RecordWalk(const KeyMap& map, const BatchRecords& records)
      : map_(map),
        in_(records.data, records.data + records.length),
        left_(records.count),
        base_offset_(records.base_offset) {}

  // The next ones, 0 at the end. What is wrong with a record is told after those before it.
  size_t next(Status* status) {
    size_t count = 0;
    for (; count < kAhead && left_ > 0 && what_ == nullptr; --left_) {
      what_ = read(&records_[count]);
      if (what_ == nullptr) ++count;
    }
    if (count == 0 && what_ != nullptr) *status = Status::Of(Code::kCorrupt, what_);
    return count;
  }

  const Record& operator[](size_t index) const { return records_[index]; }

 private:
  static constexpr const char* kEndless = "a varint of a record has no end";

  // What is wrong, or null.
  const char* read(Record* out) {
    out->start = in_.at();
    const int32_t length = in_.varint();
    if (in_.failed()) return kEndless;
    const uint8_t* fields = in_.at();
    if (!in_.skip(length)) return "a record is longer than its batch";
    out->end = in_.at();
    RecordReader record(fields, out->end);
    record.byte();  // attributes
    out->timestamp_delta = static_cast<double>(record.varlong());
    out->offset = base_offset_ + record.varint();
    out->key_length = record.varint();
    out->key = record.at();
    if (record.failed()) return kEndless;
    if (out->key_length > 0 && !record.skip(out->key_length)) return "a key is longer than its record";
    out->tombstone = record.varint() < 0;
    if (record.failed()) return kEndless;
    if (out->key_length >= 0) {
      out->digest = map_.digest(out->key, static_cast<size_t>(out->key_length));
      map_.prefetch(out->digest);
    }
    return nullptr;
  }

  const KeyMap& map_;
  RecordReader in_;
  int64_t left_;
  const double base_offset_;
  const char* what_ = nullptr;
  Record records_[kAhead];
};

}  // namespace

KeyMap::Slot* KeyMap::find(const Chaskey::Words& digest) const {
  size_t at = digest.a % count_;
  for (size_t tried = 0; tried < count_; ++tried) {
    Slot* slot = slots_ + at;
    if (slot->next_offset == 0 || slot->digest == digest) return slot;
    if (++at == count_) at = 0;
  }
  return nullptr;
}

Status learn_keys(const KeyMap& map, const BatchRecords& records, double from, int64_t room, Learned* learned) {
  *learned = {};
  Status status;
  RecordWalk walk(map, records);
  for (size_t count; (count = walk.next(&status)) > 0;) {
    for (size_t index = 0; index < count; ++index) {
      const Record& record = walk[index];
      if (record.key_length < 0 || record.offset < from) continue;
      KeyMap::Slot* slot = learned->added < room ? map.find(record.digest) : nullptr;
      if (slot == nullptr) {
        learned->all = false;
        return {};
      }
      if (slot->next_offset == 0) {
        slot->digest = record.digest;
        ++learned->added;
      }
      slot->next_offset = record.offset + 1;
    }
  }
  return status;
}

Status sift_records(const KeyMap& map, const BatchRecords& records, double up_to, bool drops_tombstones, uint8_t* into,
                    Sifted* sifted) {
  *sifted = {};
  sifted->latest_delta = -INFINITY;
  // What stays in a row is copied at once.
  const uint8_t* run = records.data;
  const uint8_t* end = records.data;
  const auto copy = [&](const uint8_t* to) {
    const size_t bytes = static_cast<size_t>(to - run);
    if (bytes > 0) std::memcpy(into + sifted->bytes, run, bytes);
    sifted->bytes += bytes;
  };
  Status status;
  RecordWalk walk(map, records);
  for (size_t count; (count = walk.next(&status)) > 0;) {
    for (size_t index = 0; index < count; ++index) {
      const Record& record = walk[index];
      end = record.end;
      bool goes = record.offset <= up_to && (record.key_length < 0 || (record.tombstone && drops_tombstones));
      if (record.offset <= up_to && !goes) {
        const KeyMap::Slot* slot = map.find(record.digest);
        goes = slot != nullptr && record.offset + 1 < slot->next_offset;
      }
      if (goes) {
        copy(record.start);
        run = record.end;
        continue;
      }
      ++sifted->kept;
      sifted->tombstones |= record.tombstone;
      sifted->latest_delta = std::max(sifted->latest_delta, record.timestamp_delta);
    }
  }
  if (sifted->kept < records.count) copy(end);
  return status;
}

}  // namespace broadsheet
