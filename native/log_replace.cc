// Segments that leave a log, by retention or because a cleaned one takes their place, and facts to decide by.
#include <algorithm>

#include "log.h"

namespace broadsheet {

Status ReplaceJob::run() {
  for (const std::shared_ptr<Segment>& segment : cleaned) {
    if (Status status = segment->adopt(); !status.ok()) return status;
  }
  // The first one last: a start that finds it as .cleaned takes none of them.
  for (auto segment = cleaned.rbegin(); segment != cleaned.rend(); ++segment) {
    if (Status status = (*segment)->rename(".cleaned", ".swap", nullptr); !status.ok()) return status;
  }
  if (!cleaned.empty()) {
    if (Status status = folder->sync(); !status.ok()) return status;
  }
  for (const std::shared_ptr<Segment>& segment : old) {
    if (Status status = segment->rename("", ".deleted", &gone); !status.ok()) return status;
    ++renamed;
  }
  for (const std::shared_ptr<Segment>& segment : cleaned) {
    if (Status status = segment->rename(".swap", "", nullptr); !status.ok()) return status;
  }
  return folder->sync();
}

std::vector<SegmentFacts> Log::facts() const {
  std::vector<SegmentFacts> facts(segments_.size());
  for (size_t i = 0; i < segments_.size(); ++i) {
    facts[i].base_offset = segments_[i]->base_offset;
    facts[i].size = segments_[i]->closed_size;
  }
  facts.back().size = tail_.size;
  if (tail_.size > 0) facts.back().began_at = tail_.first_timestamp >= 0 ? tail_.first_timestamp : tail_.created_at;
  return facts;
}

Status Log::begin_replace(const std::vector<int64_t>& old, const std::vector<int64_t>& cleaned, ReplaceJob* job) {
  if (!offline_.ok()) return Status::Of(Code::kOffline, offline_.context);
  if (replacing_) return Status::Of(Code::kInvalidArgument, "segments are being replaced already");
  if (old.empty()) return Status::Of(Code::kInvalidArgument, "no segments to replace");
  const size_t first = segment_of(old.front());
  const size_t next = first + old.size();
  if (next >= segments_.size()) return Status::Of(Code::kInvalidArgument, "the active segment is not replaced");
  for (size_t i = 0; i < old.size(); ++i) {
    if (segments_[first + i]->base_offset != old[i]) {
      return Status::Of(Code::kInvalidArgument, "no segment begins at " + std::to_string(old[i]) + " in that row");
    }
  }
  const int64_t ends = segments_[next]->base_offset;
  if (ends > flushed_offset_) return Status::Of(Code::kInvalidArgument, "the segments are not flushed");
  if (cleaned.empty() && first != 0) return Status::Of(Code::kInvalidArgument, "a hole in the log");
  for (size_t i = 0; i < cleaned.size(); ++i) {
    const bool fits = i == 0 ? cleaned[0] == old.front() : cleaned[i] > cleaned[i - 1] && cleaned[i] < ends;
    if (!fits) return Status::Of(Code::kInvalidArgument, "cleaned segments do not fit into the log");
  }
  job->folder = folder_;
  job->old.assign(segments_.begin() + static_cast<ptrdiff_t>(first), segments_.begin() + static_cast<ptrdiff_t>(next));
  for (const int64_t base : cleaned) {
    job->cleaned.push_back(std::make_shared<Segment>(folder_, base, options_.index_interval, ".cleaned"));
  }
  replacing_ = true;
  return Status::Ok();
}

void Log::finish_replace(const ReplaceJob& job, const Status& status) {
  replacing_ = false;
  if (!status.ok() && !job.cleaned.empty()) return;  // the old ones are still read, whatever they are called
  const auto first = std::find(segments_.begin(), segments_.end(), job.old.front());
  const auto last = first + static_cast<ptrdiff_t>(job.renamed);
  for (auto segment = first; segment != last; ++segment) closed_bytes_ -= (*segment)->closed_size;
  for (const std::shared_ptr<Segment>& segment : job.cleaned) closed_bytes_ += segment->closed_size;
  const auto at = segments_.erase(first, last);
  segments_.insert(at, job.cleaned.begin(), job.cleaned.end());
  log_start_offset_ = std::max(log_start_offset_, segments_.front()->base_offset);
}

}  // namespace broadsheet
