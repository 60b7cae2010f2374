# How everything here is compiled: warnings, sanitizers, the linker and the shared precompiled header.
set(KRAIT_SANITIZE "" CACHE STRING "Sanitizers for every target, as the compiler spells them (address,undefined or thread)")

if(CMAKE_BUILD_TYPE STREQUAL "Release")
  # Line tables keep a crash report readable and cost nothing at run time; CHECK does not depend on NDEBUG.
  add_compile_options(-g1)
endif()
add_compile_options(-Wall -Wextra -Wpedantic -Wno-missing-field-initializers -fno-math-errno -ffp-contract=off)
if(KRAIT_SANITIZE)
  # A finding ends the program, so that no test passes over one. Little optimization and line tables alone: tests that
  # compute run several times faster than without any, and compile as fast.
  add_compile_options(-fsanitize=${KRAIT_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer -O1 -g1)
  add_link_options(-fsanitize=${KRAIT_SANITIZE})
endif()
find_program(KRAIT_LLD ld.lld)
if(KRAIT_LLD)
  add_link_options(-fuse-ld=lld)
endif()

# One precompiled header with the standard library and fmt serves every room.
find_package(fmt REQUIRED)
add_library(krait_pch_source OBJECT "${CMAKE_CURRENT_LIST_DIR}/pch.cc")
target_precompile_headers(krait_pch_source PRIVATE "${CMAKE_CURRENT_LIST_DIR}/pch.h")
target_link_libraries(krait_pch_source PRIVATE fmt::fmt Threads::Threads)
