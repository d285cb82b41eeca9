#pragma once

#include <yaml-cpp/yaml.h>

#include <functional>
#include <string>

namespace kvsim {

/// The one document of a file of YAML, of which JSON is a part. `fail` gets what is wrong, in words
/// without the file's name, and throws: the file cannot be read, has no YAML or several documents.
YAML::Node read_yaml(const std::string& file, const std::function<void(const std::string&)>& fail);

}  // namespace kvsim
