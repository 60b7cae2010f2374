// Upper bounds of the histograms' buckets, in seconds. A change breaks comparisons with recorded data.
#pragma once

#include <array>

namespace krait::metrics {

// The bounds that dashboards of this field use, so that servers can be laid side by side.
inline constexpr std::array kFirstTokenBuckets = {.001, .005, .01, .02, .04, .06, .08, .1,  .25, .5,
                                                  .75,  1.,   2.5, 5.,  7.5, 10., 20., 40., 80., 160.};
// As usual from 10 ms on; a small model on a CPU needs the finer start.
inline constexpr std::array kInterTokenBuckets = {.001, .002, .003, .005, .01, .025, .05, .075, .1, .15,
                                                  .2,   .3,   .4,   .5,   .75, 1.,   2.5, 5.,   10.};
inline constexpr std::array kRequestBuckets = {.001, .005, .01, .025, .05, .1,   .25,  .5,   1.,   2.5,
                                               5.,   10.,  20., 40.,  60., 120., 240., 480., 960., 1920.};
inline constexpr std::array kStepBuckets = {.00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1., 2.5};

}  // namespace krait::metrics
