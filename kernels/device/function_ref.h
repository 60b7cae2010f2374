// A reference to a callable: two words, no ownership, no allocation. std::function may allocate when it is made from a
// lambda with many captures, and a step must not allocate.
#pragma once

#include <memory>
#include <type_traits>
#include <utility>

namespace krait::kernels {

template <class Signature>
class FunctionRef;

/// Refers to `callable`, which must outlive the reference: take it as a parameter, never keep it.
template <class Return, class... Args>
class FunctionRef<Return(Args...)> final {
 public:
  template <class Callable>
  requires(!std::is_same_v<std::remove_cvref_t<Callable>, FunctionRef> &&
           std::is_invocable_r_v<Return, Callable&, Args...>)
      FunctionRef(Callable&& callable)  // NOLINT(google-explicit-constructor): a lambda is passed as it stands
      : object_(const_cast<void*>(static_cast<const void*>(std::addressof(callable)))),
        call_([](void* object, Args... args) -> Return {
          return (*static_cast<std::remove_reference_t<Callable>*>(object))(std::forward<Args>(args)...);
        }) {}

  Return operator()(Args... args) const { return call_(object_, std::forward<Args>(args)...); }

 private:
  void* object_;
  Return (*call_)(void*, Args...);
};

}  // namespace krait::kernels
