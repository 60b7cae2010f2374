// Metrics as typed handles. A name that is not in metric_names.def does not compile, nor does the wrong kind.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace prometheus {
class Counter;
class Gauge;
class Histogram;
}  // namespace prometheus

namespace krait::metrics {

enum class CounterId : uint16_t {
#define COUNTER(process, id, ...) id,
#include "common/metrics/metric_names.def"
};
enum class GaugeId : uint16_t {
#define GAUGE(process, id, ...) id,
#include "common/metrics/metric_names.def"
};
enum class HistogramId : uint16_t {
#define HISTOGRAM(process, id, ...) id,
#include "common/metrics/metric_names.def"
};

enum class Process : uint8_t { kCoordinator, kShard, kBoth };
enum class MetricKind : uint8_t { kCounter, kGauge, kHistogram };

/// One line of metric_names.def.
struct MetricInfo final {
  MetricKind kind = MetricKind::kCounter;
  Process process = Process::kBoth;
  std::string_view name;
  std::string_view help;
  std::vector<std::string_view> labels;
  std::span<const double> buckets;  // of histograms
};

/// The whole list: counters, gauges, histograms, each in the order of the file.
const std::vector<MetricInfo>& metric_list();

/// Grows. Anything but a positive finite amount is ignored. Handles may be used from any thread, and live as long as
/// their Registry: get one once where the labels are known, and keep it.
class Counter final {
 public:
  explicit Counter(prometheus::Counter& cell) : cell_(&cell) {}
  void add(double amount = 1);
  double value() const;

 private:
  prometheus::Counter* cell_;
};

class Gauge final {
 public:
  explicit Gauge(prometheus::Gauge& cell) : cell_(&cell) {}
  void set(double value);
  void add(double amount);
  double value() const;

 private:
  prometheus::Gauge* cell_;
};

class Histogram final {
 public:
  explicit Histogram(prometheus::Histogram& cell) : cell_(&cell) {}
  /// A value that is no number is ignored.
  void observe(double value);

 private:
  prometheus::Histogram* cell_;
};

/// The metrics of one process. Thread-safe.
class Registry final {
 public:
  using Label = std::pair<std::string, std::string>;

  /// `process`: kCoordinator or kShard. `constant_labels` stand on every series (a shard's rank). Metrics without
  /// labels are there from the start, at zero; those with labels once their first handle is asked for.
  explicit Registry(Process process, const std::vector<Label>& constant_labels = {});
  ~Registry();
  Registry(const Registry&) = delete;
  Registry& operator=(const Registry&) = delete;

  /// The series with these values of the metric's labels, in the order of metric_names.def; the same values give the
  /// same handle. Characters that are not printable ASCII become '?'. After limits::kMaxMetricSeries label sets of a
  /// metric, new ones all get the series whose labels are "other". CHECKs the number of labels and that the metric is
  /// of this process.
  Counter& counter(CounterId id, std::initializer_list<std::string_view> labels = {});
  Gauge& gauge(GaugeId id, std::initializer_list<std::string_view> labels = {});
  Histogram& histogram(HistogramId id, std::initializer_list<std::string_view> labels = {});

  /// All series in the Prometheus text format 0.0.4. From any thread.
  std::string render() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace krait::metrics
