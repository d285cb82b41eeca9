#pragma once

#include <span>
#include <string>
#include <vector>

namespace kvsim::cli {

/// One verb of the program: `kvsim NAME ARGUMENTS`.
struct Verb {
  const char* name;
  const char* arguments;  ///< for the usage line
  const char* summary;    ///< one line
  /// Returns the exit status; throws for every error.
  int (*run)(const Verb& verb, const std::vector<std::string>& arguments);
};

/// All verbs, in the order in which help shows them.
std::span<const Verb> verbs();

int run_info(const Verb& verb, const std::vector<std::string>& arguments);
int run_verify(const Verb& verb, const std::vector<std::string>& arguments);
int run_synth(const Verb& verb, const std::vector<std::string>& arguments);
int run_convert(const Verb& verb, const std::vector<std::string>& arguments);
int run_policies(const Verb& verb, const std::vector<std::string>& arguments);
int run_replay(const Verb& verb, const std::vector<std::string>& arguments);
int run_sweep(const Verb& verb, const std::vector<std::string>& arguments);
int run_curve(const Verb& verb, const std::vector<std::string>& arguments);
int run_fetch(const Verb& verb, const std::vector<std::string>& arguments);
int run_analyze(const Verb& verb, const std::vector<std::string>& arguments);
int run_labels(const Verb& verb, const std::vector<std::string>& arguments);
int run_cost(const Verb& verb, const std::vector<std::string>& arguments);
int run_report(const Verb& verb, const std::vector<std::string>& arguments);
int run_compare(const Verb& verb, const std::vector<std::string>& arguments);
int run_merge(const Verb& verb, const std::vector<std::string>& arguments);
int run_check(const Verb& verb, const std::vector<std::string>& arguments);
int run_export(const Verb& verb, const std::vector<std::string>& arguments);
int run_traces(const Verb& verb, const std::vector<std::string>& arguments);

}  // namespace kvsim::cli
