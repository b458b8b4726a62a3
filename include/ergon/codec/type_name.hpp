// The unqualified name of a type, made at compile time.
#pragma once

#include <cstddef>
#include <string_view>

namespace ergon {
namespace detail {

template <class T>
consteval std::string_view pretty_type() {
  // clang: "… pretty_type() [T = a::b]", GCC: "… pretty_type() [with T = a::b; std::string_view = …]".
  std::string_view text = __PRETTY_FUNCTION__;
  text.remove_prefix(text.find("T = ") + 4);
  const std::size_t semicolon = text.find(';');
  return text.substr(0, semicolon != std::string_view::npos ? semicolon : text.rfind(']'));
}

// Cuts the scopes off: namespaces, classes, functions with their parameters, `(anonymous namespace)`. What follows the last `::`
// that no bracket encloses is the name.
consteval std::string_view without_scopes(std::string_view text) {
  std::size_t start = 0;
  int depth = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '<' || c == '(' || c == '{' || c == '[') ++depth;
    if (c == '>' || c == ')' || c == '}' || c == ']') --depth;
    if (depth == 0 && c == ':' && i + 1 < text.size() && text[i + 1] == ':') start = i + 2;
  }
  return text.substr(start);
}

}  // namespace detail

/// `resize` for `app::images::resize`, `box<int>` for `app::box<int>`. Not a promise beyond one compiler where T is a template's.
template <class T>
[[nodiscard]] consteval std::string_view type_name() {
  return detail::without_scopes(detail::pretty_type<T>());
}

}  // namespace ergon
