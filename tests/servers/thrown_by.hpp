// `thrown_by`: the error that a call throws, for tests that look at its text.
#pragma once

#include <gtest/gtest.h>

#include <utility>

#include <ergon/base/error.hpp>

namespace ergon::test {

template <class F>
error thrown_by(F&& f) {
  try {
    std::forward<F>(f)();
  } catch (const error& e) {
    return e;
  }
  ADD_FAILURE() << "nothing was thrown";
  return {errc::invalid_argument, ""};
}

}  // namespace ergon::test
