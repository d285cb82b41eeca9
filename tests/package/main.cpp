#include <iostream>

#include "policies/registry/registry.h"

int main() {
  for (const kvsim::PolicyInfo& policy : kvsim::policies()) std::cout << policy.name << '\n';
}
