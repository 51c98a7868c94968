// Hand-off between hosts over UCX active messages; the owner pushes, each piece with a CRC32C.
// Endpoint text: "ucx:" and the owner worker's address in hex.
#pragma once

#include <memory>

#include "src/base/clock.h"
#include "src/base/result.h"
#include "src/transfer/link.h"

namespace baton::transfer {

// The clock outlives the links. kUnavailable: UCX does not start here.
Result<std::unique_ptr<OwnerLink>> MakeUcxOwnerLink(const Clock* clock);
Result<std::unique_ptr<ReceiverLink>> MakeUcxReceiverLink(const Clock* clock);

}  // namespace baton::transfer
