#include "sim/results/version.h"

namespace kvsim {

std::string version() { return KVSIM_VERSION; }

}  // namespace kvsim
