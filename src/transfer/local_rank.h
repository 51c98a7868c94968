// Start-up check of what the caller says about its own rank. Pure.
#pragma once

#include "src/base/status.h"
#include "src/transfer/transfer.h"

namespace baton::transfer {

// kInvalidArgument, naming both values, when rank, layout, shape and pool do not fit each other, or
// the pool is not host memory.
Status CheckLocalRank(const LocalRank& local);

}  // namespace baton::transfer
