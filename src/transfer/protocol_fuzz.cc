// Hostile bytes at the decoder and at both state machines: nothing may crash, and what decodes
// encodes to the same bytes again. The first byte picks whom the message is for.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "src/base/check.h"
#include "src/transfer/layout.h"
#include "src/transfer/owner.h"
#include "src/transfer/receiver.h"

namespace baton::transfer {
namespace {

wire::Layout SmallLayout() {
  wire::Layout layout;
  layout.layers_per_stage = {2};
  layout.layers = 2;
  layout.heads = 2;
  layout.kv_heads = 2;
  layout.head_dim = 2;
  layout.block_tokens = 2;
  layout.kv_dtype = "f32";
  return layout;
}

LocalRank MakeLocal(const std::string& instance) {
  const wire::Layout layout = SmallLayout();
  return {instance, InstanceEpoch(1), 0, layout, {}, ShapeOf(layout, 0, 4)};
}

void ToOwner(const Message& message) {
  Owner owner(MakeLocal("c"));
  OfferSpec offer;
  offer.lease = message.lease;
  offer.attempt = Attempt(message.attempt);
  offer.blocks = {BlockId(0), BlockId(3)};
  offer.offer_deadline = MonoTime{100};
  offer.transfer_timeout = Nanos(50);
  CHECK_OK(owner.Offer(offer, MonoTime{1}));
  for (const int64_t now : {2, 3}) owner.OnMessage(7, message, MonoTime{now});
  for (const Outgoing& out : owner.TakeMessages()) EncodeMessage(out.message);
  CHECK(owner.Pushes().size() <= 1);
  owner.OnTime(MonoTime{1000});
  CHECK(owner.open_leases() == 0 && owner.TakeEnded().size() == 1);
}

void ToReceiver(const Message& message) {
  Receiver receiver(MakeLocal("g"));
  FetchSpec fetch;
  fetch.descriptor.instance = "c";
  fetch.descriptor.instance_epoch = InstanceEpoch(message.owner_epoch);
  fetch.descriptor.lease = message.lease;
  fetch.descriptor.layout = SmallLayout();
  fetch.descriptor.endpoints = {{0, "e"}};
  fetch.descriptor.blocks = {0, 1};
  fetch.blocks = {BlockId(2), BlockId(3)};
  fetch.receiver = "g/1/1";
  fetch.deadline = MonoTime{100};
  CHECK_OK(receiver.Prepare(fetch).status());
  Message aimed = message;
  aimed.fetch = receiver.Start(fetch, {5}, MonoTime{1});
  receiver.OnMessage(5, message, MonoTime{2});
  receiver.OnMessage(5, aimed, MonoTime{3});
  for (const FetchEnded& ended : receiver.TakeEnded()) {
    CHECK(!ended.status.ok(), "OK without a byte");
  }
  receiver.OnTime(MonoTime{1000});
  CHECK(receiver.open_fetches() == 0);
}

}  // namespace
}  // namespace baton::transfer

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace baton::transfer;  // NOLINT
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  const baton::Result<Message> message = DecodeMessage(bytes);
  if (!message.ok()) return 0;
  CHECK(EncodeMessage(*message) == bytes);
  if (data[0] % 2 == 0) {
    ToOwner(*message);
  } else {
    ToReceiver(*message);
  }
  return 0;
}
