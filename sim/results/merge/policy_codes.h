#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

namespace kvsim {

/// The policy_code of every policy, which all files must agree in.
class PolicyCodes {
 public:
  /// Throws DataError if another file has rows of the policy with another code, or with several: it
  /// names both files. One file alone may have several, as one in which a sweep made some again.
  void add(const std::string& policy, const std::string& code, const std::string& file);

  /// The same for a row of several policies, whose code is theirs, joined by '+'.
  void add(const std::vector<std::string>& policies, const std::string& code,
           const std::string& file);

 private:
  struct Known {
    std::string file;  ///< the first that has the policy
    std::set<std::string> codes;
  };

  std::map<std::string, Known> policies_;
};

}  // namespace kvsim
