#include "bench/driver/suite.hpp"

#include <stdexcept>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <boost/json/serialize.hpp>

namespace ergon::bench {

std::vector<std::string_view> suite_names() { return {"queue", "tasks"}; }

suite make_suite(std::string_view name, bool quick) {
  if (name == "queue") return make_queue_suite(quick);
  if (name == "tasks") return make_tasks_suite(quick);
  throw std::invalid_argument(fmt::format("there is no suite '{}'; there is: {}", name, fmt::join(suite_names(), ", ")));
}

std::vector<std::string> arguments_of(std::string_view scenario, const boost::json::object& params) {
  std::vector<std::string> arguments{std::string{scenario}};
  for (const auto& [name, value] : params) {
    arguments.push_back(fmt::format("--{}", std::string_view{name}));
    arguments.push_back(value.is_string() ? std::string{std::string_view{value.get_string()}} : boost::json::serialize(value));
  }
  return arguments;
}

}  // namespace ergon::bench
