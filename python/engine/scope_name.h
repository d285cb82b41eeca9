#pragma once

#include "policies/interface/policy.h"

namespace kvsim::python {

constexpr const char* scope_name(Scope scope) {
  switch (scope) {
    case Scope::head:
      return "head";
    case Scope::layer:
      return "layer";
    case Scope::model:
      break;
  }
  return "model";
}

}  // namespace kvsim::python
