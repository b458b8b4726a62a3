#include <ergon/base/cpus.hpp>

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace {

namespace fs = std::filesystem;

// A directory that looks like the root of a file system as far as quotas go.
class CpusTest : public testing::Test {
 protected:
  CpusTest() {
    std::string pattern = (fs::temp_directory_path() / "ergon-cpus-XXXXXX").string();
    root_ = ::mkdtemp(pattern.data());
  }
  ~CpusTest() override { fs::remove_all(root_); }

  void file(const std::string& path, const std::string& content) {
    fs::create_directories(fs::path{root_ + path}.parent_path());
    std::ofstream{root_ + path} << content;
  }

  std::string root_;
};

TEST_F(CpusTest, AtLeastOneIsGranted) { EXPECT_GE(ergon::granted_cpus(), 1U); }

TEST_F(CpusTest, NoGroupMeansNoQuota) {
  EXPECT_FALSE(ergon::cgroup_cpu_quota(root_));
  file("/proc/self/cgroup", "0::/\n");
  EXPECT_FALSE(ergon::cgroup_cpu_quota(root_));
}

TEST_F(CpusTest, AQuotaIsRoundedUp) {
  file("/proc/self/cgroup", "0::/app\n");
  file("/sys/fs/cgroup/app/cpu.max", "150000 100000\n");
  EXPECT_EQ(ergon::cgroup_cpu_quota(root_), 2U);
  file("/sys/fs/cgroup/app/cpu.max", "1000 100000\n");
  EXPECT_EQ(ergon::cgroup_cpu_quota(root_), 1U);
  file("/sys/fs/cgroup/app/cpu.max", "max 100000\n");
  EXPECT_FALSE(ergon::cgroup_cpu_quota(root_));
}

TEST_F(CpusTest, TheSmallestQuotaUpwardsBinds) {
  file("/proc/self/cgroup", "0::/slice/app/leaf\n");
  file("/sys/fs/cgroup/slice/app/leaf/cpu.max", "max 100000\n");
  file("/sys/fs/cgroup/slice/app/cpu.max", "800000 100000\n");
  file("/sys/fs/cgroup/slice/cpu.max", "300000 100000\n");
  EXPECT_EQ(ergon::cgroup_cpu_quota(root_), 3U);
}

TEST_F(CpusTest, InAContainerTheTopIsItsOwnGroup) {
  file("/proc/self/cgroup", "0::/host/only/path\n");
  file("/sys/fs/cgroup/cpu.max", "200000 100000\n");
  EXPECT_EQ(ergon::cgroup_cpu_quota(root_), 2U);
}

TEST_F(CpusTest, Version1HasTwoFiles) {
  file("/proc/self/cgroup", "5:memory:/x\n4:cpu,cpuacct:/docker/1\n");
  file("/sys/fs/cgroup/cpu,cpuacct/docker/1/cpu.cfs_quota_us", "250000\n");
  file("/sys/fs/cgroup/cpu,cpuacct/docker/1/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(ergon::cgroup_cpu_quota(root_), 3U);
  file("/sys/fs/cgroup/cpu,cpuacct/docker/1/cpu.cfs_quota_us", "-1\n");
  EXPECT_FALSE(ergon::cgroup_cpu_quota(root_));
}

TEST_F(CpusTest, GarbageIsNoQuota) {
  file("/proc/self/cgroup", "nonsense\n0:\n0::/app\n");
  for (const char* content : {"", "x y\n", "100000", "-5 100000", "100000 0", "99999999999999999999 1"}) {
    file("/sys/fs/cgroup/app/cpu.max", content);
    EXPECT_FALSE(ergon::cgroup_cpu_quota(root_)) << content;
  }
}

}  // namespace
