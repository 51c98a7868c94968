// CRC-32C (Castagnoli, reflected polynomial 0x82f63b78), as in iSCSI, RFC 3720 appendix B.4.
// Pure; thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>

namespace baton::transfer {

uint32_t Crc32c(const void* data, size_t bytes);

// The table-driven one that runs where the processor has no instruction for it; for the test.
uint32_t Crc32cPortable(const void* data, size_t bytes);

}  // namespace baton::transfer
