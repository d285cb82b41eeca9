#include "policies/registry/yaml_file.h"

#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>

#include <filesystem>
#include <fstream>
#include <sstream>

namespace kvsim {
namespace {

/// Takes no note of what a document holds.
class IgnoredEvents final : public YAML::EventHandler {
 public:
  using Mark = YAML::Mark;
  using Anchor = YAML::anchor_t;
  using Style = YAML::EmitterStyle::value;
  void OnDocumentStart(const Mark&) override {}
  void OnDocumentEnd() override {}
  void OnNull(const Mark&, Anchor) override {}
  void OnAlias(const Mark&, Anchor) override {}
  void OnScalar(const Mark&, const std::string&, Anchor, const std::string&) override {}
  void OnSequenceStart(const Mark&, const std::string&, Anchor, Style) override {}
  void OnSequenceEnd() override {}
  void OnMapStart(const Mark&, const std::string&, Anchor, Style) override {}
  void OnMapEnd() override {}
};

/// yaml-cpp's LoadAll() would make documents for ever of a text that is ",".
bool has_several_documents(const std::string& text) {
  std::istringstream in(text);
  YAML::Parser parser(in);
  IgnoredEvents events;
  return parser.HandleNextDocument(events) && parser.HandleNextDocument(events);
}

}  // namespace

YAML::Node read_yaml(const std::string& file, const std::function<void(const std::string&)>& fail) {
  std::error_code unreadable;
  if (std::filesystem::is_directory(file, unreadable)) fail("is a folder; name a file");
  std::ifstream in(file, std::ios::binary);
  if (!in) fail("no such file, or it cannot be read");
  constexpr std::size_t kMost = std::size_t{1} << 20U;
  std::string text(kMost + 1, '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (in.bad()) fail("it cannot be read");
  text.resize(static_cast<std::size_t>(in.gcount()));
  if (text.size() > kMost) fail("expected at most 1 MiB, found more; name a file of YAML or JSON");
  bool has_several = false;
  YAML::Node root;
  try {
    has_several = has_several_documents(text);
    if (!has_several) root = YAML::Load(text);
  } catch (const YAML::Exception& error) {
    const bool has_grid = text.find("={") != std::string::npos;
    fail(fmt::format("line {}: neither YAML nor JSON: {}{}", error.mark.line + 1, error.msg,
                     has_grid ? "; put specs with braces in quotes" : ""));
  }
  if (has_several) fail("expected one document, found more; join them");
  return root;
}

}  // namespace kvsim
