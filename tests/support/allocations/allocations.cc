#include "tests/support/allocations/allocations.h"

#include <cstdlib>
#include <new>

namespace krait::test {

Allocations& allocations() {
  thread_local Allocations of_thread;
  return of_thread;
}

}  // namespace krait::test

// Not inlined: the compiler would see malloc meet operator delete and warn.
[[gnu::noinline]] void* operator new(size_t bytes) {
  krait::test::Allocations& of_thread = krait::test::allocations();
  ++of_thread.count;
  of_thread.bytes += bytes;
  if (of_thread.allowed == 0) throw std::bad_alloc();
  if (of_thread.allowed > 0) --of_thread.allowed;
  if (void* memory = std::malloc(bytes > 0 ? bytes : 1)) return memory;
  throw std::bad_alloc();
}
// std::stable_sort asks in this way, and would else get memory of another allocator where a sanitizer has one.
[[gnu::noinline]] void* operator new(size_t bytes, const std::nothrow_t&) noexcept try {
  return operator new(bytes);
} catch (const std::bad_alloc&) {
  return nullptr;
}
[[gnu::noinline]] void operator delete(void* memory) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, size_t) noexcept {
  std::free(memory);
}
