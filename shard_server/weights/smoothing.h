// What a few large weights of a norm do to quantized products, and how it is undone before it happens.
//
// Activations are quantized by groups of neighbours. Where one channel of a norm is many times its neighbours, it alone
// decides the group's scale, and they are left a few levels. The same factor, taken out of the norm and put into the
// columns of the matrices that read it, changes no product; as a power of two it is exact in float32. What is said here
// of a norm also goes for D of Mamba-1's channels and out_proj: there the scan's outputs are scaled.
#pragma once

#include <span>
#include <vector>

namespace krait::shard {

/// For each weight of a norm the power of two, 1 or more, that it exceeds the median magnitude of its neighbours by.
/// Neighbours are the groups of int8 activations within each of `leaves` equal parts, so that aligned ranks find the
/// factors of the whole. Small weights stay: they often tame channels whose activations are large.
std::vector<float> smoothing_factors(std::span<const float> norm, int leaves);

}  // namespace krait::shard
