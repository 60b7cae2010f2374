"""Writes a copy of a source file with faults in it that a test switches on: python3 plant.py SOURCE TARGET.

Each fault stands in for a line that must be there exactly once, so that a source that changes asks for its faults anew.
`krait_planted_fault` is the number of the one that is on.
"""

import pathlib
import sys

# File, number of the fault, the sound line, what takes its place.
FAULTS = [
    (
        "step_results.cc",
        1,  # a token comes twice
        "post.chunk(*sequence).tokens.push_back(run_sample->token);",
        "for (int times = ON && run_sample->token.token % 8 == 0 ? 2 : 1; times > 0; --times)\n"
        "        post.chunk(*sequence).tokens.push_back(run_sample->token);",
    ),
    (
        "step_results.cc",
        2,  # a slot is not given back
        "free_slots_.push_back(sequence->slot);",
        "if (!ON || sequence->key.request % 8 != 0) free_slots_.push_back(sequence->slot);",
    ),
    (
        "step_results.cc",
        3,  # an end is not told
        "send(sequence->key.peer, finished);",
        "if (!ON || sequence->key.request % 8 != 0) send(sequence->key.peer, finished);",
    ),
    (
        "scheduler.cc",
        4,  # plans go on after a cancel
        "end(SequencePtr(found->second), wire::FinishReason::kCancelled);",
        "if (!ON) end(SequencePtr(found->second), wire::FinishReason::kCancelled);",
    ),
    (
        "scheduler.cc",
        5,  # a sequence is planned one token too far
        "if (!sequence->may_decode()) continue;",
        "if (!sequence->may_decode() && !(ON && sequence->generated > 0 && sequence->generated % 5 == 0)) continue;",
    ),
    (
        "forks.cc",
        6,  # a forked state lacks a token
        "step.taps.push_back({fork_row, follower->slot});",
        "step.taps.push_back({ON ? std::max(fork_row - 1, 0) : fork_row, follower->slot});",
    ),
]


def planted(name, text):
    for file, number, sound, faulty in FAULTS:
        if file != name:
            continue
        if text.count(sound) != 1:
            raise SystemExit(f"{name}: fault {number} has no place: {sound}")
        text = text.replace(sound, faulty.replace("ON", f"(krait_planted_fault == {number})"))
    return "extern int krait_planted_fault;\n" + text


if __name__ == "__main__":
    source, target = map(pathlib.Path, sys.argv[1:])
    target.write_text(planted(source.name, source.read_text(encoding="utf-8")), encoding="utf-8")
