#include "common/metrics/registry.h"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <cmath>
#include <map>
#include <mutex>

#include "common/base/check.h"
#include "common/base/limits.h"
#include "common/metrics/buckets.h"

namespace krait::metrics {
namespace {

std::string printable(std::string_view value) {
  std::string clean(value);
  for (char& c : clean) {
    if (c < ' ' || c > '~') c = '?';
  }
  return clean;
}

/// One metric: its family, and the handle of each label set seen.
template <class Cell, class Handle>
class Metric final {
 public:
  Metric(const MetricInfo& info, prometheus::Family<Cell>* family) : info_(&info), family_(family) {}

  Handle& series(std::initializer_list<std::string_view> values) {
    if (family_ == nullptr) check_failed(__FILE__, __LINE__, "a metric of this process", std::string(info_->name));
    CHECK_EQ(values.size(), info_->labels.size());
    std::vector<std::string> key;
    key.reserve(values.size());
    for (const std::string_view value : values)
      key.push_back(printable(value));
    if (const auto found = handles_.find(key); found != handles_.end()) return found->second;
    if (std::cmp_greater_equal(handles_.size(), limits::kMaxMetricSeries - 1)) key.assign(key.size(), "other");
    if (const auto found = handles_.find(key); found != handles_.end()) return found->second;
    prometheus::Labels labels;
    for (size_t i = 0; i < key.size(); ++i)
      labels.emplace(info_->labels[i], key[i]);
    return handles_.emplace(std::move(key), Handle(add(labels))).first->second;
  }

 private:
  Cell& add(const prometheus::Labels& labels) {
    if constexpr (std::is_same_v<Cell, prometheus::Histogram>) {
      return family_->Add(labels,
                          prometheus::Histogram::BucketBoundaries(info_->buckets.begin(), info_->buckets.end()));
    } else {
      return family_->Add(labels);
    }
  }

  const MetricInfo* info_;
  prometheus::Family<Cell>* family_;  // owned by the library's registry; null in the other process
  std::map<std::vector<std::string>, Handle> handles_;
};

}  // namespace

const std::vector<MetricInfo>& metric_list() {
  static const std::vector<MetricInfo> list = {
#define COUNTER(process, id, name, help, ...) \
  {MetricKind::kCounter, Process::k##process, name, help, {__VA_ARGS__}, {}},
#include "common/metrics/metric_names.def"
#define GAUGE(process, id, name, help, ...) {MetricKind::kGauge, Process::k##process, name, help, {__VA_ARGS__}, {}},
#include "common/metrics/metric_names.def"
#define HISTOGRAM(process, id, name, help, buckets, ...) \
  {MetricKind::kHistogram, Process::k##process, name, help, {__VA_ARGS__}, buckets},
#include "common/metrics/metric_names.def"
  };
  return list;
}

void Counter::add(double amount) {
  if (amount > 0 && std::isfinite(amount)) cell_->Increment(amount);
}
double Counter::value() const {
  return cell_->Value();
}

void Gauge::set(double value) {
  cell_->Set(value);
}
void Gauge::add(double amount) {
  cell_->Increment(amount);
}
double Gauge::value() const {
  return cell_->Value();
}

void Histogram::observe(double value) {
  if (!std::isnan(value)) cell_->Observe(value);
}

class Registry::Impl final {
 public:
  Impl(Process process, const std::vector<Label>& constant_labels) {
    CHECK(process != Process::kBoth);
    const prometheus::Labels labels(constant_labels.begin(), constant_labels.end());
    for (const MetricInfo& info : metric_list()) {
      const bool ours = info.process == process || info.process == Process::kBoth;
      switch (info.kind) {
        case MetricKind::kCounter:
          add(counters_, info, ours, prometheus::BuildCounter(), labels);
          break;
        case MetricKind::kGauge:
          add(gauges_, info, ours, prometheus::BuildGauge(), labels);
          break;
        case MetricKind::kHistogram:
          add(histograms_, info, ours, prometheus::BuildHistogram(), labels);
          break;
      }
    }
  }

  Counter& counter(CounterId id, std::initializer_list<std::string_view> labels) {
    const std::lock_guard lock(mutex_);
    return counters_[static_cast<size_t>(id)].series(labels);
  }
  Gauge& gauge(GaugeId id, std::initializer_list<std::string_view> labels) {
    const std::lock_guard lock(mutex_);
    return gauges_[static_cast<size_t>(id)].series(labels);
  }
  Histogram& histogram(HistogramId id, std::initializer_list<std::string_view> labels) {
    const std::lock_guard lock(mutex_);
    return histograms_[static_cast<size_t>(id)].series(labels);
  }

  std::string render() const { return prometheus::TextSerializer().Serialize(library_.Collect()); }

 private:
  template <class Cell, class Handle, class Builder>
  void add(std::vector<Metric<Cell, Handle>>& metrics, const MetricInfo& info, bool ours, Builder builder,
           const prometheus::Labels& labels) {
    prometheus::Family<Cell>* family = nullptr;
    if (ours) {
      builder.Name(std::string(info.name)).Help(std::string(info.help)).Labels(labels);
      family = &builder.Register(library_);
    }
    metrics.emplace_back(info, family);
    if (ours && info.labels.empty()) metrics.back().series({});
  }

  std::mutex mutex_;
  prometheus::Registry library_;
  std::vector<Metric<prometheus::Counter, Counter>> counters_;  // by id, as are the others
  std::vector<Metric<prometheus::Gauge, Gauge>> gauges_;
  std::vector<Metric<prometheus::Histogram, Histogram>> histograms_;
};

Registry::Registry(Process process, const std::vector<Label>& constant_labels)
    : impl_(std::make_unique<Impl>(process, constant_labels)) {}
Registry::~Registry() = default;

Counter& Registry::counter(CounterId id, std::initializer_list<std::string_view> labels) {
  return impl_->counter(id, labels);
}
Gauge& Registry::gauge(GaugeId id, std::initializer_list<std::string_view> labels) {
  return impl_->gauge(id, labels);
}
Histogram& Registry::histogram(HistogramId id, std::initializer_list<std::string_view> labels) {
  return impl_->histogram(id, labels);
}
std::string Registry::render() const {
  return impl_->render();
}

}  // namespace krait::metrics
