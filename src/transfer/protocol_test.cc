#include "src/transfer/protocol.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "src/base/rng.h"
#include "src/transfer/testing.h"

namespace baton::transfer {
namespace {

std::vector<Message> OneOfEach() {
  std::vector<Message> messages;
  for (int kind = 1; kind <= 11; ++kind) {
    Message m;
    m.kind = static_cast<Kind>(kind);
    m.owner_epoch = 0xfedcba9876543210u;
    m.owner_rank = 3;
    if (m.kind != Kind::kHello) {
      m.lease = 77;
      m.fetch = 1ull << 40;
      m.receiver_rank = 5;
    }
    if (m.kind == Kind::kAsk || m.kind == Kind::kAbort || m.kind == Kind::kHello) {
      m.instance = "context-0";
    }
    if (m.kind == Kind::kAsk || m.kind == Kind::kAbort) {
      m.attempt = 2;
      m.receiver = "generation-1/4/assignment-9";
    }
    if (m.kind == Kind::kAsk) {
      m.layout = testing::MakeLayout(3, 2, 7, 5);
      m.blocks = 12;
      m.skip_blocks = 12;
    }
    if (m.kind == Kind::kRefuse) m.code = RefuseCode::kTaken;
    if (m.kind == Kind::kRefuse || m.kind == Kind::kAbort || m.kind == Kind::kStale) {
      m.reason = "because";
    }
    if (m.kind == Kind::kFetch || m.kind == Kind::kDone || m.kind == Kind::kData ||
        m.kind == Kind::kHello) {
      m.bytes = 1ull << 33;
    }
    if (m.kind == Kind::kGrant) m.timeout_ns = 10'000'000'000;
    if (m.kind == Kind::kData) m.crc = 0xdeadbeef;
    messages.push_back(m);
  }
  return messages;
}

TEST(Protocol, EveryKindSurvivesTheRoundTrip) {
  for (const Message& message : OneOfEach()) {
    const Result<Message> back = DecodeMessage(EncodeMessage(message));
    ASSERT_TRUE(back.ok()) << back.status().ToString();
    EXPECT_EQ(*back, message) << static_cast<int>(message.kind);
  }
}

// The files were written from the description in protocol.h, not by this code: they pin version 1.
TEST(Protocol, BytesOfVersion1AreUnderstoodAndWrittenAgain) {
  size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator("src/transfer/corpus")) {
    std::ifstream file(entry.path(), std::ios::binary);
    const std::string bytes((std::istreambuf_iterator<char>(file)), {});
    ASSERT_GT(bytes.size(), 1u);
    const Result<Message> message = DecodeMessage(bytes.substr(1));  // the first is the fuzzer's
    ASSERT_TRUE(message.ok()) << entry.path() << ": " << message.status().ToString();
    EXPECT_EQ(EncodeMessage(*message), bytes.substr(1)) << entry.path();
    EXPECT_EQ(message->owner_epoch, 1u);
    ++files;
  }
  EXPECT_EQ(files, 11u);
}

TEST(Protocol, EveryCutAndEveryTrailingByteIsRefused) {
  for (const Message& message : OneOfEach()) {
    const std::string bytes = EncodeMessage(message);
    for (size_t size = 0; size < bytes.size(); ++size) {
      EXPECT_FALSE(DecodeMessage(bytes.substr(0, size)).ok()) << size;
    }
    EXPECT_FALSE(DecodeMessage(bytes + '\0').ok());
  }
}

TEST(Protocol, WhatDecodesFromDamagedBytesEncodesToTheSameBytes) {
  Rng rng(7);
  const std::vector<Message> messages = OneOfEach();
  for (int i = 0; i < 20000; ++i) {
    std::string bytes = EncodeMessage(messages[rng.Below(messages.size())]);
    for (uint64_t n = rng.Below(4) + 1; n > 0; --n) {
      bytes[rng.Below(bytes.size())] = static_cast<char>(rng.Next());
    }
    const Result<Message> got = DecodeMessage(bytes);
    if (got.ok()) {
      EXPECT_EQ(EncodeMessage(*got), bytes);
    }
  }
}

TEST(Protocol, LimitsVersionAndUnknownKindAreRefused) {
  const std::string ask = EncodeMessage(OneOfEach()[0]);
  const auto refused = [](std::string bytes) {
    return DecodeMessage(bytes).status().code() == StatusCode::kInvalidArgument;
  };
  std::string other_version = ask;
  other_version[1] = 2;
  EXPECT_TRUE(refused(other_version));
  std::string other_kind = ask;
  other_kind[2] = 12;
  EXPECT_TRUE(refused(other_kind));
  other_kind[2] = 0;
  EXPECT_TRUE(refused(other_kind));
  EXPECT_TRUE(refused("X" + ask.substr(1)));
  EXPECT_TRUE(refused(std::string(kProtocolBytesMax + 1, 'K')));
  Message skips = OneOfEach()[0];
  skips.skip_blocks = skips.blocks + 1;
  EXPECT_TRUE(refused(EncodeMessage(skips)));
  skips.skip_blocks = 0;
  skips.blocks = kHandoffBlocksMax + 1;
  EXPECT_TRUE(refused(EncodeMessage(skips)));
}

TEST(Protocol, ALongReasonIsCutNotRefused) {
  Message stale;
  stale.kind = Kind::kStale;
  stale.reason = std::string(5000, 'r');
  const Result<Message> back = DecodeMessage(EncodeMessage(stale));
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(back->reason.size(), kReasonBytesMax);
}

}  // namespace
}  // namespace baton::transfer
