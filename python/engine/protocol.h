#pragma once

#include "python/engine/fields.h"
#include "sim/protocol/protocol.h"

namespace kvsim::python {

/// Lets keyword arguments set the options of a protocol.
inline void add_fields(ProtocolOptions& options, Fields& fields) {
  options.each([&](const char* name, auto& field, const char*) {
    if constexpr (std::is_same_v<decltype(field), std::string&>) {
      fields.add_text(name, field);
    } else {
      fields.add(name, field);
    }
  });
}

}  // namespace kvsim::python
