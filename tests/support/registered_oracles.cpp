#include "oracle/oracles.h"

// Registers the oracles for every test, as in the program.
static const bool kRegistered = (kvsim::add_oracles(), true);
