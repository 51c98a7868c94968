#include "schemas/conformity.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace baton::schemas {
namespace {

namespace fs = std::filesystem;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const fs::path kReleased = "schemas/golden/v1";
const fs::path kToday = "schemas";

std::vector<std::string> SchemaNames(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() == ".fbs") names.push_back(entry.path().filename());
  }
  return names;
}

std::string ReadAll(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

std::vector<std::string> MustCompare(const fs::path& before, const fs::path& after) {
  const auto violations = Violations(before, after);
  EXPECT_TRUE(violations.ok()) << violations.status().ToString();
  return violations.ok() ? *violations : std::vector<std::string>{"did not parse"};
}

// A copy of today's schemas with one passage of one file replaced.
class PlantedTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(std::getenv("TEST_TMPDIR")) /
              ::testing::UnitTest::GetInstance()->current_test_info()->name();
    fs::create_directories(folder_);
    for (const std::string& name : SchemaNames(kToday)) {
      std::ofstream(folder_ / name) << ReadAll(kToday / name);
    }
  }

  std::vector<std::string> Plant(const std::string& file, const std::string& passage,
                                 const std::string& instead, const std::string& root = "") {
    std::string text = ReadAll(folder_ / file);
    const size_t at = text.find(passage);
    EXPECT_NE(at, std::string::npos) << file << " no longer holds: " << passage;
    if (at != std::string::npos) text.replace(at, passage.size(), instead);
    std::ofstream(folder_ / file) << text;
    const std::string compared = root.empty() ? file : root;
    return MustCompare(kToday / compared, folder_ / compared);
  }

  fs::path folder_;
};

TEST(ConformityTest, TodaysSchemasFollowTheReleasedOnes) {
  const std::vector<std::string> released = SchemaNames(kReleased);
  ASSERT_GE(released.size(), 15u);
  for (const std::string& name : released) {
    ASSERT_TRUE(fs::exists(kToday / name)) << name << " was released and is gone";
    EXPECT_THAT(MustCompare(kReleased / name, kToday / name), IsEmpty()) << name;
  }
}

TEST_F(PlantedTest, AnUnchangedSchemaIsFine) {
  EXPECT_THAT(MustCompare(kToday / "event.fbs", folder_ / "event.fbs"), IsEmpty());
}

TEST_F(PlantedTest, GrowthIsFine) {
  EXPECT_THAT(Plant("control.fbs", "priority:Priority = Normal (id: 4);",
                    "priority:Priority = Normal (id: 4);\n  reason:string (id: 5);"),
              IsEmpty());
  EXPECT_THAT(Plant("control.fbs", "Tenant = 2", "Tenant = 2, Everything = 3"), IsEmpty());
  EXPECT_THAT(Plant("control.fbs", "root_type", "table Extra { x:int (id: 0); }\nroot_type"),
              IsEmpty());
}

TEST_F(PlantedTest, AChangedFileIdentifierIsCaught) {
  EXPECT_THAT(Plant("request.fbs", "BREQ", "BREX"),
              Contains(HasSubstr("file identifier BREQ became BREX")));
}

TEST_F(PlantedTest, AChangedRootIsCaught) {
  EXPECT_THAT(Plant("registration.fbs", "root_type Registration", "root_type Identity"),
              Contains(HasSubstr("root baton.fb.Registration became baton.fb.Identity")));
}

TEST_F(PlantedTest, ARenamedFieldIsCaught) {
  EXPECT_THAT(Plant("common.fbs", "cache_salt:string", "cache_key:string", "request.fbs"),
              Contains(HasSubstr("Request.cache_salt: removed or renamed")));
}

TEST_F(PlantedTest, ARemovedTableIsCaught) {
  const std::string all = ReadAll(folder_ / "result_record.fbs");
  const size_t begin = all.find("table Provenance");
  const std::string table = all.substr(begin, all.find('}', begin) + 1 - begin);
  std::ofstream(folder_ / "result_record.fbs") << std::string(all).erase(begin, table.size());
  EXPECT_THAT(
      Plant("result_record.fbs", "provenance:Provenance (id: 8)", "provenance:string (id: 8)"),
      Contains(HasSubstr("table baton.fb.Provenance is gone")));
}

TEST_F(PlantedTest, AChangedIdIsCaught) {
  const auto violations =
      Plant("ledger_position.fbs", "partition:int (id: 1);\n  offset:long (id: 2);",
            "partition:int (id: 2);\n  offset:long (id: 1);");
  EXPECT_THAT(violations, Contains(HasSubstr("LedgerPosition.partition: id 1 became 2")));
}

TEST_F(PlantedTest, AChangedTypeIsCaught) {
  EXPECT_THAT(Plant("token_record.fbs", "sequence:ulong", "sequence:uint"),
              Contains(HasSubstr("TokenRecord.sequence: type ULong became UInt")));
}

TEST_F(PlantedTest, AChangedElementTypeIsCaught) {
  EXPECT_THAT(Plant("heartbeat.fbs", "in_step:[Identity]", "in_step:[Address]"),
              Contains(HasSubstr("type [baton.fb.Identity] became [baton.fb.Address]")));
}

TEST_F(PlantedTest, AChangedDefaultIsCaught) {
  EXPECT_THAT(Plant("common.fbs", "max_tokens:uint = 16", "max_tokens:uint = 32", "request.fbs"),
              Contains(HasSubstr("Request.max_tokens: its default changed")));
}

TEST_F(PlantedTest, AnOptionalFieldMadePlainIsCaught) {
  EXPECT_THAT(Plant("common.fbs", "end_id:int = null", "end_id:int", "request.fbs"),
              Contains(HasSubstr("Request.end_id: optional or required changed")));
}

TEST_F(PlantedTest, ANewRequiredFieldIsCaught) {
  EXPECT_THAT(Plant("grant.fbs", "refusal_message:string (id: 8);",
                    "refusal_message:string (id: 8);\n  why:string (id: 9, required);"),
              Contains(HasSubstr("Grant.why: new, yet required")));
}

TEST_F(PlantedTest, ARenumberedEnumIsCaught) {
  EXPECT_THAT(Plant("event.fbs", "Cancelled = 4, Expired = 5", "Expired = 4, Cancelled = 5"),
              Contains(HasSubstr("enum baton.fb.EventKind: Cancelled is no longer 4")));
}

TEST_F(PlantedTest, AChangedStructIsCaught) {
  EXPECT_THAT(Plant("common.fbs", "  logprob:float;", "  logprob:double;", "event.fbs"),
              Contains(HasSubstr("struct baton.fb.TokenLogprob changed its shape")));
}

}  // namespace
}  // namespace baton::schemas
