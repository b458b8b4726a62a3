// Which type a kind belongs to, in this process: two types that share one would read each other's payloads.
#include <map>
#include <mutex>
#include <typeindex>

#include <fmt/format.h>

#include <ergon/base/error.hpp>
#include <ergon/base/text.hpp>
#include <ergon/queue/payload.hpp>

namespace ergon::detail {

void claim_kind(std::string_view kind, const std::type_info& type) {
  static std::mutex mutex;
  static auto& owners = *new std::map<std::string, std::type_index, std::less<>>;

  check_name("kind", kind);
  const std::scoped_lock lock{mutex};
  const auto [owner, added] = owners.try_emplace(std::string{kind}, type);
  if (!added && owner->second != std::type_index{type}) {
    throw error{
        errc::duplicate_kind,
        fmt::format(
            "the kind {} belongs to two types, {} and {}; give one of them a `static constexpr std::string_view kind` of its own",
            quoted(kind), owner->second.name(), type.name())};
  }
}

}  // namespace ergon::detail
