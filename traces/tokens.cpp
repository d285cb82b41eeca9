#include "traces/tokens.h"

#include "traces/integrity/digest_attribute.h"
#include "traces/text_list.h"

namespace kvsim {

std::vector<std::int32_t> read_token_ids(const GroupReader& sequence) {
  const std::string name = "token_ids";
  if (!sequence.contains(name)) return {};
  return read_list<std::int32_t>(sequence.dataset(name), sequence.place().child(name),
                                 sequence.fix());
}

std::vector<std::string> read_token_text(const GroupReader& sequence, int tokens) {
  const std::string name = "token_text";
  if (!sequence.contains(name)) return {};
  return read_text_list(sequence, name, static_cast<std::size_t>(tokens));
}

}  // namespace kvsim
