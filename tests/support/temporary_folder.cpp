#include "tests/support/temporary_folder.h"

#include <cstdlib>
#include <stdexcept>

namespace kvsim::traces_test {

TemporaryFolder::TemporaryFolder() {
  std::string name = (std::filesystem::temp_directory_path() / "kvsim-test-XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("no temporary folder");
  path_ = name;
}

TemporaryFolder::~TemporaryFolder() { std::filesystem::remove_all(path_); }

int TemporaryFolder::num_partial(const std::string& name) const {
  int found = 0;
  for (const auto& entry : std::filesystem::directory_iterator(path_)) {
    found += entry.path().filename().string().starts_with(name + ".partial-");
  }
  return found;
}

}  // namespace kvsim::traces_test
