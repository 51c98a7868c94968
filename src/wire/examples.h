// One value of each message with every field set to something that is not its default; for tests,
// fuzzing and the golden binaries of //schemas. A change here changes what the golden files must
// hold, so new fields go in and old values stay.
#pragma once

#include "src/wire/messages.h"

namespace baton::wire::examples {

Request FullRequest();
HandoffDescriptor FullHandoff();
Assignment FullAssignment();
Grant FullGrant();
Event FullEvent();
Registration FullRegistration();
Heartbeat FullHeartbeat();
ResultRecord FullResult();
TokenRecord FullToken();
Control FullControl();
LedgerRequest FullLedgerRequest();
LedgerPosition FullLedgerPosition();
LedgerClaim FullLedgerClaim();
LedgerInstance FullLedgerInstance();
DeadLetter FullDeadLetter();

}  // namespace baton::wire::examples
