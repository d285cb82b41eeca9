#pragma once

#include <boost/program_options/errors.hpp>
#include <fstream>
#include <functional>
#include <iostream>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>

namespace kvsim::bench {

/// Writes the report to `file`; to none if the name is empty. Throws std::runtime_error.
inline void write_report(const nlohmann::json& report, const std::string& file) {
  if (file.empty()) return;
  std::ofstream out(file);
  out << report.dump(1) << '\n';
  if (!out.flush()) throw std::runtime_error("cannot write " + file);
}

/// Runs a benchmark of this name; returns the status that the program ends with.
inline int run_program(const char* name, const std::function<void()>& run) {
  try {
    run();
    return 0;
  } catch (const boost::program_options::error& error) {
    std::cerr << name << ": error: " << error.what() << std::endl;
    return 2;
  } catch (const std::exception& error) {
    std::cerr << name << ": error: " << error.what() << std::endl;
    return 1;
  }
}

}  // namespace kvsim::bench
