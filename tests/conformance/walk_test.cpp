// The history checker: seeded random operations against a model that fits on a page. After every step the store's counts must be the
// model's, every delivery must be a job that the model calls ready, and in the end every job that was acknowledged has ended exactly
// once (promise 1), with nothing left anywhere (promise 2). A failing seed replays: the operations depend on the seed and the model alone.
#include <algorithm>
#include <array>
#include <map>
#include <random>

#include "conformance/scene.hpp"

namespace ergon::conformance {
namespace {

class WalkConformance : public Scene {
 protected:
  struct job {
    std::string id;
    std::string own_id;
    std::string key;
    job_state state = job_state::ready;
    /// Boot time (scheduled, retry).
    std::chrono::nanoseconds due{0};
    std::chrono::nanoseconds locked_until{0};
    bool holds_key = false;
    std::uint32_t failures = 0;
    std::uint32_t losses = 0;
    std::uint32_t max_retries = 0;
    bool retained = false;
    /// Completed without a trace, removed, or succeeded by a new life.
    bool forgotten = false;
    int ends = 0;
    std::size_t holder = 0;
    lease_token lease;
  };

  std::size_t pick(std::size_t below) { return static_cast<std::size_t>(random_() % below); }
  bool chance(int percent) { return pick(100) < static_cast<std::size_t>(percent); }

  template <class Wanted>
  job* any(Wanted wanted) {
    std::vector<job*> fit;
    for (job& j : jobs_) {
      if (!j.forgotten && wanted(j)) fit.push_back(&j);
    }
    return fit.empty() ? nullptr : fit[pick(fit.size())];
  }

  job* live(auto same) {
    for (job& j : jobs_) {
      if (!j.forgotten && !is_terminal(j.state) && same(j)) return &j;
    }
    return nullptr;
  }

  /// What the passing of time does.
  void pass_time() {
    for (job& j : jobs_) {
      const bool parked = !j.forgotten && (j.state == job_state::scheduled || j.state == job_state::retry);
      if (parked && j.due <= clock.boot()) j.state = job_state::ready;
    }
  }

  void end(job& j, job_state how) {
    j.state = how;
    j.holds_key = false;
    ++j.ends;
    ++ended_[static_cast<std::size_t>(how)];
    if (how == job_state::completed && !j.retained) j.forgotten = true;
  }

  bool counts_match() {
    const queue_info q = counts();
    std::array<std::uint64_t, 9> want{};
    for (const job& j : jobs_) {
      if (!j.forgotten) ++want[static_cast<std::size_t>(j.state)];
    }
    const std::array<std::uint64_t, 9> have{q.ready,     q.scheduled, q.retry,     q.waiting,  q.active,
                                            q.completed, q.dead,      q.cancelled, q.discarded};
    last_counts_ = "the store's and the model's counts: " + ::testing::PrintToString(have) + " " + ::testing::PrintToString(want);
    return have == want;
  }

  void enqueue() {
    const std::size_t count = 1 + pick(5);
    std::vector<new_job> batch(count);
    std::vector<std::string> own(count);
    std::vector<std::string> keys(count);
    std::vector<job> made(count);
    std::vector<job*> holder(count, nullptr);
    std::vector<int> earlier(count, -1);
    for (std::size_t i = 0; i < count; ++i) {
      new_job& n = batch[i];
      job& j = made[i];
      n.kind = "k";
      n.max_retries = j.max_retries = static_cast<std::uint32_t>(pick(3));
      if (chance(20)) n.id = j.own_id = own[i] = "id" + std::to_string(pick(6));
      if (chance(20)) {
        n.unique_key = j.key = keys[i] = "key" + std::to_string(pick(6));
        n.unique_for = std::chrono::seconds{1 + pick(60)};
        j.locked_until = clock.boot() + n.unique_for;
        j.holds_key = true;
      }
      if (chance(20)) {
        n.delay = std::chrono::seconds{1 + pick(30)};
        j.state = job_state::scheduled;
        j.due = clock.boot() + *n.delay;
      }
      if (chance(20)) {
        n.retention = 24h;
        j.retained = true;
      }
      // The id is looked at before the key.
      for (const bool by_id : {true, false}) {
        const auto same = [&](const job& other) {
          return by_id ? !j.own_id.empty() && other.own_id == j.own_id
                       : !j.key.empty() && other.holds_key && other.key == j.key && other.locked_until > clock.boot();
        };
        if (holder[i] != nullptr || earlier[i] >= 0) break;
        holder[i] = live(same);
        for (std::size_t k = 0; k < i && holder[i] == nullptr && earlier[i] < 0; ++k) {
          if (holder[k] == nullptr && earlier[k] < 0 && same(made[k])) earlier[i] = static_cast<int>(k);
        }
      }
    }
    const auto out = put_all(batch);
    for (std::size_t i = 0; i < count; ++i) {
      const bool created = holder[i] == nullptr && earlier[i] < 0;
      ASSERT_EQ(out[i].created, created) << "own id '" << own[i] << "', key '" << keys[i] << "'";
      if (!created) {
        ASSERT_EQ(out[i].id, holder[i] != nullptr ? holder[i]->id : out[static_cast<std::size_t>(earlier[i])].id);
        continue;
      }
      made[i].id = out[i].id;
      if (made[i].holds_key) {
        for (job& other : jobs_) {
          if (other.key == made[i].key) other.holds_key = false;
        }
      }
    }
    for (std::size_t i = 0; i < count; ++i) {
      if (!made[i].id.empty()) jobs_.push_back(std::move(made[i]));
    }
    for (const enqueued& e : out) created_ += e.created ? 1 : 0;
  }

  void fetch(std::size_t worker) {
    if (paused_ || any([](const job& j) { return j.state == job_state::ready; }) == nullptr) return;
    const taken t = take(*workers_[worker], 1 + pick(4));
    for (const delivery& d : t.batch.jobs) {
      const std::string id = public_id(d);
      job* j = live([&](const job& other) { return other.id == id; });
      ASSERT_NE(j, nullptr) << id << " was delivered and had ended";
      ASSERT_EQ(j->state, job_state::ready) << id;
      ASSERT_EQ(d.failures, j->failures);
      ASSERT_EQ(d.losses, j->losses);
      ASSERT_EQ(d.custom_id, j->own_id);
      j->state = job_state::active;
      j->holder = worker;
      j->lease = d.lease;
    }
  }

  void settle_one(job& j, verdict how) {
    const auto delay = chance(50) ? std::chrono::seconds{1 + pick(20)} : 0s;
    const settled out = settle(*workers_[j.holder], {.lease = j.lease, .how = how, .text = "text", .delay = delay});
    if (how == verdict::retry && j.failures == j.max_retries) {
      ASSERT_EQ(out, settled::buried);
    } else {
      ASSERT_EQ(out, settled::yes);
    }
    old_leases_.emplace_back(j.holder, j.lease);
    switch (how) {
      case verdict::complete:
        return end(j, job_state::completed);
      case verdict::bury:
        return end(j, job_state::dead);
      case verdict::discard:
        return end(j, job_state::discarded);
      case verdict::cancel:
        return end(j, job_state::cancelled);
      case verdict::retry:
        j.losses = 0;
        if (j.failures++ == j.max_retries) return end(j, job_state::dead);
        [[fallthrough]];
      case verdict::hand_back:
        j.state = delay > 0s ? job_state::retry : job_state::ready;
        j.due = clock.boot() + delay;
    }
  }

  void step() {
    switch (pick(12)) {
      case 0:
      case 1:
      case 2:
        return enqueue();
      case 3:
      case 4:
        return fetch(pick(workers_.size()));
      case 5:
      case 6:
      case 7:
        if (job* j = any([](const job& x) { return x.state == job_state::active; })) {
          constexpr std::array hows{verdict::complete, verdict::complete, verdict::complete, verdict::retry,    verdict::retry,
                                    verdict::bury,     verdict::discard,  verdict::cancel,   verdict::hand_back};
          settle_one(*j, hows[pick(hows.size())]);
        }
        return;
      case 8:
        if (job* j = any([](const job& x) { return !is_terminal(x.state); })) {
          const std::size_t holder = j->holder;
          const bool active = j->state == job_state::active;
          ASSERT_EQ(run(store->cancel(j->id)), j->state);
          if (active) old_leases_.emplace_back(holder, j->lease);
          end(*j, job_state::cancelled);
        }
        return;
      case 9:
        if (job* j = any([](const job& x) { return x.state != job_state::active; })) {
          run(store->remove(j->id));
          if (!is_terminal(j->state)) end(*j, job_state::discarded);
          j->forgotten = true;
        }
        return;
      case 10:
        return run_again();
      default:
        break;
    }
    switch (pick(5)) {
      case 0:
      case 1:
        pass(std::chrono::seconds{1 + pick(10)});
        return;
      case 2:
        run(paused_ ? store->resume("default") : store->pause("default"));
        paused_ = !paused_;
        return;
      case 3:
        if (!old_leases_.empty()) {
          // Promise 3.
          const auto& [worker, lease] = old_leases_[pick(old_leases_.size())];
          ASSERT_EQ(settle(*workers_[worker], {.lease = lease, .how = static_cast<verdict>(pick(6))}), settled::lost);
        }
        return;
      default:
        return lose_worker();
    }
  }

  void run_again() {
    job* j = any([](const job& x) {
      return x.state != job_state::active && x.state != job_state::ready && x.state != job_state::discarded;
    });
    if (j == nullptr) return;
    if (!is_terminal(j->state)) {
      ASSERT_EQ(run(store->run(j->id)), j->id);
      j->state = job_state::ready;
      j->failures = j->losses = 0;
      return;
    }
    const bool blocked =
        live([&](const job& other) {
          return (!j->own_id.empty() && other.own_id == j->own_id) ||
                 (!j->key.empty() && other.holds_key && other.key == j->key && other.locked_until > clock.boot());
        }) != nullptr;
    if (blocked) {
      ASSERT_EQ(failure_of(store->run(j->id)), errc::wrong_state);
      return;
    }
    // How long the new life holds the key is the old one's `unique_for`, which the model does not follow: it takes jobs without a key.
    if (!j->key.empty()) return;
    job life = *j;
    life.id = run(store->run(j->id));
    life.state = job_state::ready;
    life.failures = life.losses = 0;
    life.ends = 0;
    j->forgotten = true;
    ++created_;
    jobs_.push_back(std::move(life));
  }

  void lose_worker() {
    const std::size_t which = pick(workers_.size());
    if (chance(50)) {
      run(workers_[which]->leave());
    } else {
      abandon(*workers_[which]);
      for (job& j : jobs_) {
        if (!j.forgotten && j.state == job_state::active && j.holder == which) ++j.losses;
      }
    }
    std::erase_if(old_leases_, [&](const auto& old) { return old.first == which; });
    workers_[which] = join();
    for (job& j : jobs_) {
      if (!j.forgotten && j.state == job_state::active && j.holder == which) j.state = job_state::ready;
    }
    ASSERT_TRUE(after_takeover([&] {
      pass_time();
      return counts_match();
    }));
  }

  void walk(std::uint64_t seed, int steps) {
    random_.seed(seed);
    keeper_ = join({{.name = "nothing", .weight = 1}});
    const upkeep keeps{rt, *keeper_};
    for (int i = 0; i < 3; ++i) workers_.push_back(join());
    for (int i = 0; i < steps; ++i) {
      step();
      pass_time();
      if (HasFatalFailure()) return;
      ASSERT_TRUE(eventually([&] { return counts_match(); })) << "seed " << seed << ", step " << i << ", " << last_counts_;
    }
    drain(seed);
  }

  void drain(std::uint64_t seed) {
    if (paused_) run(store->resume("default"));
    paused_ = false;
    for (int round = 0; round < 100'000; ++round) {
      pass_time();
      if (job* j = any([](const job& x) { return x.state == job_state::active; })) {
        settle_one(*j, verdict::complete);
      } else if (any([](const job& x) { return x.state == job_state::ready; }) != nullptr) {
        ASSERT_TRUE(eventually([&] { return counts_match(); })) << "seed " << seed;
        fetch(0);
      } else if (any([](const job& x) { return !is_terminal(x.state); }) != nullptr) {
        pass(10s);
      } else {
        break;
      }
      if (HasFatalFailure()) return;
    }
    ASSERT_TRUE(eventually([&] { return counts_match(); })) << "seed " << seed;
    for (const job& j : jobs_) EXPECT_EQ(j.ends, 1) << j.id;
    const hour_stats sum = totals();
    EXPECT_EQ(sum.enqueued, created_);
    EXPECT_EQ(sum.completed, ended_[static_cast<std::size_t>(job_state::completed)]);
    EXPECT_EQ(sum.dead, ended_[static_cast<std::size_t>(job_state::dead)]);
    EXPECT_EQ(sum.cancelled, ended_[static_cast<std::size_t>(job_state::cancelled)]);
    EXPECT_EQ(sum.discarded, ended_[static_cast<std::size_t>(job_state::discarded)]);
    EXPECT_EQ(sum.enqueued, sum.completed + sum.dead + sum.cancelled + sum.discarded) << "every job ended exactly once";
    for (auto& w : workers_) run(w->leave());
    workers_.clear();
  }

 private:
  std::mt19937_64 random_;
  std::unique_ptr<consumer> keeper_;
  std::vector<std::unique_ptr<consumer>> workers_;
  std::vector<job> jobs_;
  std::vector<std::pair<std::size_t, lease_token>> old_leases_;
  std::array<std::uint64_t, 9> ended_{};
  std::uint64_t created_ = 0;
  bool paused_ = false;
  std::string last_counts_;
};
ERGON_ON_EVERY_STORE(WalkConformance);

// Promises 1, 2, 3 and 8, at every step.
TEST_P(WalkConformance, CountsAddUpAtEveryStepOfARandomWalk1) { walk(1, 1500); }
TEST_P(WalkConformance, CountsAddUpAtEveryStepOfARandomWalk2) { walk(2, 1500); }
TEST_P(WalkConformance, CountsAddUpAtEveryStepOfARandomWalk3) { walk(3, 1500); }

}  // namespace
}  // namespace ergon::conformance
