// Several tasks at once: `when_all` waits for every one, `when_any` for the first. The tasks run as children of the waiting one: all
// have ended when the wait has, on every way out, and a cancel of the waiting task cancels them.
//
//   auto [user, orders] = co_await ergon::when_all(load_user(id), load_orders(id));
//   auto first = co_await ergon::when_any(ask(mirror_a), ask(mirror_b));   // first.index, std::get<0>(first.value)
#pragma once

#include <atomic>
#include <concepts>
#include <cstddef>
#include <exception>
#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include <ergon/base/error.hpp>
#include <ergon/runtime/task.hpp>
#include <ergon/runtime/task_group.hpp>

namespace ergon {

namespace detail {

template <class T>
task<void> keep_value(task<T> body, std::optional<value_of<T>>& into) {
  if constexpr (std::is_void_v<T>) {
    co_await std::move(body);
    into.emplace();
  } else {
    into.emplace(co_await std::move(body));
  }
}

template <class... T>
void spawn_all(task_group& group, std::tuple<task<T>...>& bodies, std::tuple<std::optional<value_of<T>>...>& values) {
  [&]<std::size_t... I>(std::index_sequence<I...>) {
    (group.spawn(keep_value(std::move(std::get<I>(bodies)), std::get<I>(values))), ...);
  }(std::index_sequence_for<T...>{});
}

/// The race of a `when_any`: the first end is kept, and ends the others.
template <class Value>
class race {
 public:
  explicit race(task_group& group) noexcept : group_(&group) {}

  /// `write` puts the end of a task into `value` or `thrown`, if it is the first.
  template <class Write>
  void end(std::size_t index, Write write) noexcept {
    if (decided_.exchange(true, std::memory_order_acq_rel)) {
      return;
    }
    winner = index;
    try {
      write();
    } catch (...) {
      thrown = std::current_exception();
    }
    group_->cancel();
  }

  std::size_t winner = 0;
  std::optional<Value> value;
  std::exception_ptr thrown;

 private:
  task_group* group_;
  std::atomic<bool> decided_{false};
};

/// `make` makes the race's value of the task's.
template <class Value, class T, class Make>
task<void> compete(task<T> body, std::size_t index, race<Value>& in, Make make) {
  try {
    std::optional<value_of<T>> value;
    co_await keep_value(std::move(body), value);
    in.end(index, [&] { in.value.emplace(make(std::move(*value))); });
  } catch (...) {
    in.end(index, [&] { in.thrown = std::current_exception(); });
  }
}

}  // namespace detail

/// Gives the values in the order of the tasks; a `task<void>` gives `std::monostate`. The first exception cancels the others and is
/// thrown when they have ended.
template <class... T>
  requires(sizeof...(T) > 0 && (!std::is_reference_v<T> && ...))
task<std::tuple<detail::value_of<T>...>> when_all(task<T>... bodies) {
  std::tuple<task<T>...> held{std::move(bodies)...};
  std::tuple<std::optional<detail::value_of<T>>...> values;
  co_await with_group([&](task_group& group) -> task<void> {
    detail::spawn_all(group, held, values);
    co_return;
  });
  co_return std::apply([](auto&... value) { return std::tuple<detail::value_of<T>...>{std::move(*value)...}; }, values);
}

/// The same for any number of tasks of one type; none gives no values.
template <class T>
  requires(!std::is_reference_v<T> && !std::is_void_v<T>)
task<std::vector<T>> when_all(std::vector<task<T>> bodies) {
  std::vector<std::optional<T>> values(bodies.size());
  co_await with_group([&](task_group& group) -> task<void> {
    for (std::size_t i = 0; i < bodies.size(); ++i) {
      group.spawn(detail::keep_value(std::move(bodies[i]), values[i]));
    }
    co_return;
  });
  std::vector<T> all;
  all.reserve(values.size());
  for (std::optional<T>& value : values) {
    all.push_back(std::move(*value));
  }
  co_return all;
}
inline task<void> when_all(std::vector<task<void>> bodies) {
  co_await with_group([&](task_group& group) -> task<void> {
    for (task<void>& body : bodies) {
      group.spawn(std::move(body));
    }
    co_return;
  });
}

/// Which task ended first, and its value: alternative `index` of the variant.
template <class... T>
struct first_of {
  std::size_t index = 0;
  std::variant<detail::value_of<T>...> value;
};

/// Waits until one has ended, cancels the others and joins them. Gives the first one's value, or throws what it threw.
template <class... T>
  requires(sizeof...(T) > 0 && (!std::is_reference_v<T> && ...))
task<first_of<T...>> when_any(task<T>... bodies) {
  using value = std::variant<detail::value_of<T>...>;
  std::tuple<task<T>...> held{std::move(bodies)...};
  std::optional<detail::race<value>> race;
  co_await with_group([&](task_group& group) -> task<void> {
    race.emplace(group);
    [&]<std::size_t... I>(std::index_sequence<I...>) {
      (group.spawn(detail::compete<value>(std::move(std::get<I>(held)), I, *race,
                                          [](auto&& v) { return value{std::in_place_index<I>, std::forward<decltype(v)>(v)}; })),
       ...);
    }(std::index_sequence_for<T...>{});
    co_return;
  });
  if (race->thrown) {
    std::rethrow_exception(std::move(race->thrown));
  }
  co_return first_of<T...>{race->winner, std::move(*race->value)};
}

/// The same for any number of tasks of one type: the first one's number and value. Throws `errc::invalid_argument` for none.
template <class T>
  requires(!std::is_reference_v<T>)
task<std::pair<std::size_t, detail::value_of<T>>> when_any(std::vector<task<T>> bodies) {
  if (bodies.empty()) {
    throw error(errc::invalid_argument, "when_any was given no task: it would wait for ever");
  }
  using value = detail::value_of<T>;
  std::optional<detail::race<value>> race;
  co_await with_group([&](task_group& group) -> task<void> {
    race.emplace(group);
    for (std::size_t i = 0; i < bodies.size(); ++i) {
      group.spawn(detail::compete<value>(std::move(bodies[i]), i, *race, [](value v) { return v; }));
    }
    co_return;
  });
  if (race->thrown) {
    std::rethrow_exception(std::move(race->thrown));
  }
  co_return std::pair<std::size_t, value>{race->winner, std::move(*race->value)};
}

}  // namespace ergon
