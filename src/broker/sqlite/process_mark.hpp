// Whether this is still the process in which something was made. A SQLite connection that is carried through `fork` corrupts its file silently, and
// threads do not come along: what is marked refuses to work in a forked child and lets go of nothing there. Asking costs a load.
#pragma once

#include <string>

namespace ergon::sqlite {

class process_mark {
 public:
  process_mark();
  [[nodiscard]] bool is_mine() const noexcept;
  /// Throws `errc::closed` in a forked child. `what` names the store.
  void check(const std::string& what) const;

 private:
  unsigned forks_;
};

}  // namespace ergon::sqlite
