#include "bench/driver/results.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <boost/json/array.hpp>
#include <boost/json/serialize.hpp>

namespace ergon::bench {
namespace {

// 6 significant digits: more would be noise written down.
double rounded(double v) {
  if (v == 0 || !std::isfinite(v)) return v;
  const double scale = std::pow(10.0, 5 - std::floor(std::log10(std::abs(v))));
  return std::round(v * scale) / scale;
}

std::string short_by(double reached, double wanted) {
  return fmt::format("short by {:.0f}%", std::max(1.0, 100 * (1 - reached / wanted)));
}
std::string over_by(double reached, double wanted) {
  return fmt::format("too high by {}%", number_text(std::max(1.0, 100 * (reached / wanted - 1))));
}

void write_pretty(std::string& out, const boost::json::value& value, std::size_t depth) {
  const auto pad = [&](std::size_t n) { out.append(2 * n, ' '); };
  if (value.is_object() && !value.get_object().empty()) {
    out += "{\n";
    bool first = true;
    for (const auto& [name, member] : value.get_object()) {
      if (!first) out += ",\n";
      first = false;
      pad(depth + 1);
      out += boost::json::serialize(boost::json::value(boost::json::string(name))) + ": ";
      write_pretty(out, member, depth + 1);
    }
    out += '\n';
    pad(depth);
    out += '}';
    return;
  }
  const bool holds_objects =
      value.is_array() && std::ranges::any_of(value.get_array(), [](const auto& v) { return v.is_object(); });
  if (holds_objects) {
    out += "[\n";
    bool first = true;
    for (const auto& element : value.get_array()) {
      if (!first) out += ",\n";
      first = false;
      pad(depth + 1);
      write_pretty(out, element, depth + 1);
    }
    out += '\n';
    pad(depth);
    out += ']';
    return;
  }
  // Boost.JSON writes doubles as 1.23456E5; the shortest form that reads back the same is kinder.
  if (value.is_double()) {
    out += fmt::format("{}", value.get_double());
    return;
  }
  if (value.is_array()) {
    out += '[';
    bool first = true;
    for (const auto& element : value.get_array()) {
      if (!first) out += ", ";
      first = false;
      write_pretty(out, element, depth);
    }
    out += ']';
    return;
  }
  out += boost::json::serialize(value);
}

boost::json::object row_json(const results& all, const row_result& row) {
  const measurement& m = row.what;
  boost::json::object o;
  o["suite"] = all.suite;
  o["scenario"] = m.scenario;
  o["system"] = m.system;
  o["variant"] = m.variant;
  o["params"] = m.params;
  o["unit"] = m.unit;
  boost::json::array rounds;
  for (double v : row.values()) rounds.push_back(rounded(v));
  o["rounds"] = std::move(rounds);
  // The rounds of a void row stay to be looked at; nothing is said about them.
  const bool is_void = row.is_void();
  const summary s = is_void ? summary{} : summarise(row.values(), m.better);
  o["best"] = is_void ? boost::json::value{} : boost::json::value(rounded(s.best));
  o["median"] = is_void ? boost::json::value{} : boost::json::value(rounded(s.median));
  o["worst"] = is_void ? boost::json::value{} : boost::json::value(rounded(s.worst));
  if (const auto l = row.middle_latency(); l && !is_void) {
    o["latency_ms"] = boost::json::object{{"p50", rounded(l->p50)}, {"p95", rounded(l->p95)}, {"p99", rounded(l->p99)}};
  }
  if (row.peak_rss_kb != 0) o["rss_kb"] = row.peak_rss_kb;
  if (const auto c = comparison_of(all, row)) {
    boost::json::object ratio{
        {"median", rounded(c->median)}, {"low", rounded(c->low)}, {"high", rounded(c->high)}, {"verdict", to_string(c->verdict)}};
    o["ratio_to"] = boost::json::object{{baseline_of(all, row)->what.system, std::move(ratio)}};
  }
  if (const std::string by = row.bound_by(); !by.empty() && !is_void) o["bound_by"] = by;
  o["verified"] = !is_void;
  if (const std::string note = note_of(all, row); !note.empty()) o["note"] = note;
  return o;
}

void add_sentence(std::string& text, std::string_view sentence) {
  if (sentence.empty()) return;
  if (!text.empty()) text += ' ';
  text += sentence;
  if (!sentence.ends_with('.')) text += '.';
}

}  // namespace

std::vector<double> row_result::values() const {
  std::vector<double> v;
  for (const auto& r : rounds) {
    if (r) v.push_back(*r);
  }
  return v;
}

std::optional<latency> row_result::middle_latency() const {
  if (latencies.empty()) return std::nullopt;
  const auto middle = [&](double latency::* which) {
    std::vector<double> v;
    for (const latency& l : latencies) v.push_back(l.*which);
    return median(v);
  };
  return latency{middle(&latency::p50), middle(&latency::p95), middle(&latency::p99)};
}

std::string row_result::bound_by() const { return !server_busy.empty() && median(server_busy) >= 0.95 ? "server" : ""; }

const row_result* baseline_of(const results& all, const row_result& row) {
  if (row.what.baseline.empty()) return nullptr;
  const auto found = std::ranges::find(all.rows, row.what.baseline, [](const row_result& r) { return r.what.key; });
  return found == all.rows.end() || found->is_void() ? nullptr : &*found;
}

std::optional<comparison> comparison_of(const results& all, const row_result& row) {
  const row_result* baseline = baseline_of(all, row);
  if (baseline == nullptr || row.is_void()) return std::nullopt;
  return compare(row.rounds, baseline->rounds, row.what.better);
}

std::string bar_text(const results& all, const row_result& row) {
  if (!row.what.must) return {};
  const bar& b = *row.what.must;
  std::string goal;
  switch (b.what) {
    case bar::kind::at_least:
      goal = fmt::format("≥ {} {}", number_text(b.value), row.what.unit);
      break;
    case bar::kind::at_most:
      goal = fmt::format("≤ {}", value_text(b.value, row.what.unit));
      break;
    case bar::kind::p99_ms_at_most:
      goal = fmt::format("p99 ≤ {} ms", number_text(b.value));
      break;
    case bar::kind::ratio_at_least:
      goal = fmt::format("≥ {:.2f} × {}", b.value, row.what.baseline_title);
      break;
    case bar::kind::baseline_ratio_at_least:
      goal = fmt::format("{} ≥ {:.2f} × this", row.what.baseline_title, b.value);
      break;
  }
  constexpr const char* not_compared = ": the row it is compared with was not measured";
  if (row.is_void()) return goal + ": not measured";
  const summary s = summarise(row.values(), row.what.better);
  const auto at_least = [&](double middle, double worst) {
    if (middle < b.value) return goal + ": " + short_by(middle, b.value);
    std::string text = goal + ": met";
    if (worst < b.value) text += fmt::format(" (lowest {})", short_by(worst, b.value));
    if (b.stretch > 0)
      text += middle >= b.stretch ? fmt::format(", stretch {:.2f} reached", b.stretch)
                                  : fmt::format(", stretch {:.2f} not", b.stretch);
    return text;
  };
  const auto at_most = [&](double middle, double worst) {
    if (middle > b.value) return goal + ": " + over_by(middle, b.value);
    return goal + ": met" + (worst > b.value ? fmt::format(" (worst {})", over_by(worst, b.value)) : "");
  };
  switch (b.what) {
    case bar::kind::at_least:
      return at_least(s.median, s.worst);
    case bar::kind::at_most:
      return at_most(s.median, s.worst);
    case bar::kind::p99_ms_at_most: {
      double worst = 0;
      for (const latency& l : row.latencies) worst = std::max(worst, l.p99);
      const auto middle = row.middle_latency();
      return middle ? at_most(middle->p99, worst) : goal + ": not measured";
    }
    case bar::kind::ratio_at_least: {
      const auto c = comparison_of(all, row);
      return c ? at_least(c->median, c->low) : goal + not_compared;
    }
    case bar::kind::baseline_ratio_at_least: {
      const row_result* baseline = baseline_of(all, row);
      const auto c = baseline != nullptr ? compare(baseline->rounds, row.rounds, row.what.better) : std::nullopt;
      return c ? at_least(c->median, c->low) : goal + not_compared;
    }
  }
  return goal;
}

std::string note_of(const results& all, const row_result& row) {
  std::string text;
  if (!row.what.lacks.empty()) return row.what.lacks;
  if (row.is_void()) add_sentence(text, "Void: " + (row.failure.empty() ? std::string{"no round was measured"} : row.failure));
  add_sentence(text, row.what.remark);
  add_sentence(text, row.said);
  if (!row.server_busy.empty() && !row.is_void()) {
    const double busy = median(row.server_busy);
    add_sentence(text, fmt::format("The server used {:.0f}% of a core{}", 100 * busy,
                                   row.bound_by().empty() ? "" : ", and bounds the rate"));
  }
  if (const auto c = comparison_of(all, row)) {
    add_sentence(text, "Compared with " + row.what.baseline_title);
    if (c->pairs == 1) add_sentence(text, "One pair only: no spread is known");
    if (c->verdict == finding::slower) add_sentence(text, row.what.why_slower);
  }
  if (const std::string b = bar_text(all, row); !b.empty()) add_sentence(text, "Bar " + b);
  return text;
}

boost::json::object to_json(const results& all) {
  boost::json::object o;
  o["schema"] = 1;
  o["measured_at"] = all.measured_at;
  o["environment"] = all.environment;
  boost::json::array rows;
  for (const row_result& row : all.rows) rows.push_back(row_json(all, row));
  o["rows"] = std::move(rows);
  return o;
}

std::string pretty(const boost::json::value& value) {
  std::string out;
  write_pretty(out, value, 0);
  return out + '\n';
}

std::string number_text(double value) {
  if (std::abs(value) < 100) return fmt::format("{:.3g}", value);
  std::string digits = fmt::format("{:.0f}", value);
  for (auto at = static_cast<std::ptrdiff_t>(digits.size()) - 3; at > (digits.front() == '-' ? 1 : 0); at -= 3)
    digits.insert(static_cast<std::size_t>(at), 1, ',');
  return digits;
}

std::string value_text(double value, const std::string& unit) {
  if (unit == "s") return number_text(value * 1000) + " ms";
  return number_text(value) + " " + unit;
}

}  // namespace ergon::bench
