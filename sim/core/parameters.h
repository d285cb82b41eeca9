#pragma once

// What users write and how they are told that it is wrong, and draws from a seed: the same for the
// folders that stand on the engine as for the policies, which define it.
#include "policies/amount.h"
#include "policies/errors.h"
#include "policies/nearest.h"
#include "policies/params.h"
#include "policies/random_bits.h"
#include "policies/split.h"
