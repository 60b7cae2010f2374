#include "coordinator/chat_template/frames.h"

#include <map>
#include <set>

namespace krait::chat_template {
namespace {

/// What a frame, or one branch in it, knows of names.
class Names final {
 public:
  /// `before`: of the same frame, for a branch. `outer`: of the frame around. Either may be null.
  Names(const Names* before, const Names* outer) : before_(before), outer_(outer) {}

  void add(const std::vector<Mention>& mentions) {
    for (const Mention& mention : mentions)
      add(mention);
  }
  bool known(NameId name) const { return known_here(name) || (outer_ != nullptr && outer_->known(name)); }
  /// Of a whole frame.
  void append_hidden(HiddenNames& out) const {
    for (const auto& [name, hides] : hides_) {
      if (hides) out.push_back(name);
    }
  }

 private:
  bool known_here(NameId name) const {
    return hides_.contains(name) || (before_ != nullptr && before_->known_here(name));
  }
  bool is_set(NameId name) const { return sets_.contains(name) || (before_ != nullptr && before_->is_set(name)); }

  void add(const Mention& mention) {
    switch (mention.kind) {
      case Mention::Kind::kRead:
        if (!known(mention.name)) hides_[mention.name] = false;
        break;
      case Mention::Kind::kSet:
        sets_.insert(mention.name);
        if (!known_here(mention.name)) hides_[mention.name] = outer_ == nullptr || !outer_->known(mention.name);
        break;
      case Mention::Kind::kGiven:
        sets_.insert(mention.name);
        hides_[mention.name] = false;
        break;
      case Mention::Kind::kBranches:
        add_branches(mention.branches);
        break;
    }
  }

  /// What a branch sets means, where it does not, what it means outside.
  void add_branches(const std::vector<std::vector<Mention>>& branches) {
    std::map<NameId, bool> hides;
    std::set<NameId> sets;
    for (const auto& mentions : branches) {
      Names branch(this, outer_);
      branch.add(mentions);
      hides.merge(branch.hides_);
      sets.merge(branch.sets_);
    }
    for (const auto& [name, hidden] : hides)
      hides_[name] = hidden;
    for (const NameId name : sets) {
      if (!is_set(name)) hides_[name] = false;
      sets_.insert(name);
    }
  }

  const Names* const before_;
  const Names* const outer_;
  std::map<NameId, bool> hides_;  // names that are mentioned, and whether they are nothing at first
  std::set<NameId> sets_;
};

void add_reads(const std::vector<Mention>& mentions, std::set<NameId>& out) {
  for (const Mention& mention : mentions) {
    if (mention.kind == Mention::Kind::kRead) out.insert(mention.name);
    for (const auto& branch : mention.branches)
      add_reads(branch, out);
  }
}

/// Returns the names that the frame and those inside read.
std::set<NameId> find_hidden_in(Frame& frame, const Names* outer) {
  Names names(nullptr, outer);
  names.add(frame.mentions);
  std::set<NameId> reads;
  for (Frame& inner : frame.inside)
    reads.merge(find_hidden_in(inner, &names));
  names.append_hidden(*frame.hidden);
  std::erase_if(*frame.hidden, [&](NameId name) { return !reads.contains(name); });
  add_reads(frame.mentions, reads);
  return reads;
}

}  // namespace

void find_hidden(Frame& whole) {
  find_hidden_in(whole, nullptr);
}

}  // namespace krait::chat_template
