#include "src/cmd/version.h"

#include <fmt/format.h>
#include <librdkafka/rdkafka.h>
#include <mpi.h>

#include <array>

namespace baton::cmd {

std::string VersionText() {
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> mpi{};
  int length = 0;
  MPI_Get_library_version(mpi.data(), &length);  // allowed before MPI_Init
  std::string_view mpi_text(mpi.data(), static_cast<size_t>(length));
  mpi_text = mpi_text.substr(0, mpi_text.find(','));
  return fmt::format("baton {} (commit {})\nlibrdkafka {}\nMPI {}\ncompiler {}\n", kVersion,
                     BuildCommit(), rd_kafka_version_str(), mpi_text, __VERSION__);
}

}  // namespace baton::cmd
