// A descriptor that is closed unless it is handed on.
#pragma once

#include <unistd.h>

#include <utility>

namespace ergon::detail {

class owned_descriptor {
 public:
  explicit owned_descriptor(int number) noexcept : number_(number) {}
  owned_descriptor(const owned_descriptor&) = delete;
  owned_descriptor& operator=(const owned_descriptor&) = delete;
  ~owned_descriptor() {
    if (number_ >= 0) {
      ::close(number_);
    }
  }
  [[nodiscard]] int get() const noexcept { return number_; }
  int release() noexcept { return std::exchange(number_, -1); }

 private:
  int number_;
};

}  // namespace ergon::detail
