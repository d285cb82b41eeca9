#pragma once

#include <boost/program_options.hpp>
#include <string>
#include <vector>

namespace kvsim::cli {

/// Adds to `values` the options that a YAML or JSON file gives (--config), except those that are
/// there already. Its keys are the long names of `options` and, in lower case and without what
/// follows a point, the names of the arguments in `positional`: `trace` for TRACE. An option that
/// takes several values takes a list; one that takes none takes true or false. Throws UsageError,
/// naming file and key, for anything else.
void store_config(const std::string& file,
                  const boost::program_options::options_description& options,
                  const std::vector<std::string>& positional,
                  boost::program_options::variables_map& values);

}  // namespace kvsim::cli
