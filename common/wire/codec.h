// Messages to bytes and back. What comes back from decode() is within every limit, whoever sent the bytes.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "common/wire/messages.h"

namespace krait::wire {

/// The bytes of one message (Cap'n Proto's stream framing, a multiple of 8). Words for people (Error::message and
/// param, Status::detail, Leave::reason) are cut at limits::kMaxWireTextBytes; everything else travels as it is, and
/// the other side's decode() refuses what is beyond a limit.
std::vector<std::byte> encode(const Message& message);

/// The message in `bytes`. Errors, each naming what is wrong:
///   kProtocol  another protocol version (both are named), an unknown kind of message, a value or a list beyond its
///   limit kCorrupt   the bytes are no message: damaged, cut short, too deep, or with something after the end
/// Memory used is bounded by a small multiple of the size of `bytes`, which is at most limits::kMaxWireMessageBytes.
/// Guaranteed afterwards: token ids are in [0, kMaxVocab) (-1 only where messages.h has it), slots in [0, kMaxSlots),
/// ranks below kMaxWorld, positions within kMaxSequenceTokens, a step within kMaxStepRows rows, sampling parameters
/// finite, deadlines and durations not negative. Not checked: anything that needs a model or a history.
Result<Message> decode(std::span<const std::byte> bytes);

/// "Submit", "StepDone": for logs.
std::string_view message_name(const Message& message);

}  // namespace krait::wire
