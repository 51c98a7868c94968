// Writes schemas/golden/<version>/: one binary of each message kind and a copy of each schema, to
// be decoded by every later version. A released version is never written again; a new one gets the
// next number.
//
//   bazel run //schemas:write_golden -- v2
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>

#include "src/wire/codec.h"
#include "src/wire/examples.h"

namespace baton {
namespace {

namespace fs = std::filesystem;
namespace examples = wire::examples;

template <typename Message>
bool Write(const fs::path& folder, const char* kind, const Message& message) {
  const std::string bytes = wire::Encode(message);
  std::ofstream file(folder / (std::string(kind) + ".bin"), std::ios::binary);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  file.close();
  if (!file) std::fprintf(stderr, "%s.bin: cannot be written\n", kind);
  return static_cast<bool>(file);
}

bool WriteMessages(const fs::path& folder) {
  return Write(folder, "request", examples::FullRequest()) &&
         Write(folder, "assignment", examples::FullAssignment()) &&
         Write(folder, "grant", examples::FullGrant()) &&
         Write(folder, "event", examples::FullEvent()) &&
         Write(folder, "registration", examples::FullRegistration()) &&
         Write(folder, "heartbeat", examples::FullHeartbeat()) &&
         Write(folder, "result_record", examples::FullResult()) &&
         Write(folder, "token_record", examples::FullToken()) &&
         Write(folder, "control", examples::FullControl()) &&
         Write(folder, "ledger_request", examples::FullLedgerRequest()) &&
         Write(folder, "ledger_position", examples::FullLedgerPosition()) &&
         Write(folder, "ledger_claim", examples::FullLedgerClaim()) &&
         Write(folder, "ledger_instance", examples::FullLedgerInstance()) &&
         Write(folder, "dead_letter", examples::FullDeadLetter());
}

bool CopySchemas(const fs::path& from, const fs::path& to) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(from, error)) {
    if (entry.path().extension() != ".fbs") continue;
    if (!fs::copy_file(entry.path(), to / entry.path().filename(), error)) break;
  }
  if (error) std::fprintf(stderr, "%s: %s\n", to.c_str(), error.message().c_str());
  return !error;
}

int Run(const char* workspace, const std::string& version) {
  const fs::path schemas = fs::path(workspace) / "schemas";
  const fs::path folder = schemas / "golden" / version;
  std::error_code error;
  if (!fs::create_directories(folder, error)) {
    std::fprintf(stderr, "%s: exists already or cannot be made; released versions stay\n",
                 folder.c_str());
    return 1;
  }
  return WriteMessages(folder) && CopySchemas(schemas, folder) ? 0 : 1;
}

}  // namespace
}  // namespace baton

int main(int argc, char** argv) {
  const char* workspace = std::getenv("BUILD_WORKSPACE_DIRECTORY");
  if (argc != 2 || workspace == nullptr) {
    std::fprintf(stderr, "usage: bazel run //schemas:write_golden -- <version>\n");
    return 2;
  }
  return baton::Run(workspace, argv[1]);
}
