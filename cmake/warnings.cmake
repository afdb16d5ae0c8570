# One strict warning set for every target; a warning is an error.
set(ZABRA_WARNINGS
    -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion -Wstrict-prototypes
    -Wmissing-prototypes -Wvla -Wundef -Wformat=2 -Wcast-qual -Wcast-align -Wwrite-strings
    -Wswitch-enum -Wnull-dereference -Wredundant-decls)
if(CMAKE_C_COMPILER_ID STREQUAL "GNU")
  list(APPEND ZABRA_WARNINGS -Wimplicit-fallthrough=5 -Wduplicated-cond -Wduplicated-branches
       -Wlogical-op -Wjump-misses-init)
  if(NOT ZABRA_SANITIZE)
    list(APPEND ZABRA_WARNINGS -Wstack-usage=16384)
  endif()
endif()
if(CMAKE_C_COMPILER_ID STREQUAL "Clang")
  # Clang takes a format handed on beside its va_list for one made at run time.
  list(APPEND ZABRA_WARNINGS -Wno-format-nonliteral)
endif()
if(ZABRA_WERROR)
  list(APPEND ZABRA_WARNINGS -Werror)
endif()

set(ZABRA_COMPILE_FLAGS -g${ZABRA_DEBUG} -fstack-protector-strong)
set(ZABRA_LINK_FLAGS "")
if(ZABRA_SANITIZE)
  list(APPEND ZABRA_COMPILE_FLAGS -fsanitize=${ZABRA_SANITIZE} -fno-omit-frame-pointer
       -fno-sanitize-recover=all)
  list(APPEND ZABRA_LINK_FLAGS -fsanitize=${ZABRA_SANITIZE})
  # GCC's flow analysis sees false null pointers and over-long strings in instrumented code.
  list(APPEND ZABRA_WARNINGS -Wno-null-dereference)
  # Descriptions of undefined behaviour are a part of the build's time, and of each start of a program.
  if(ZABRA_DEBUG LESS 2 AND ZABRA_SANITIZE MATCHES undefined AND NOT ZABRA_FUZZ)
    list(APPEND ZABRA_COMPILE_FLAGS -fsanitize-undefined-trap-on-error)
  endif()
  if(ZABRA_FUZZ)
    # The fuzzer follows the branches of all code, not only of its targets.
    list(APPEND ZABRA_COMPILE_FLAGS -fsanitize=fuzzer-no-link)
  endif()
elseif(CMAKE_BUILD_TYPE STREQUAL "Release")
  # Checked string functions, stacks that cannot jump over their guard page; tests/lint looks at the
  # binary for all of it.
  list(APPEND ZABRA_COMPILE_FLAGS -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3 -fstack-clash-protection)
  include(CheckCCompilerFlag)
  check_c_compiler_flag(-fcf-protection=full ZABRA_HAS_CET) # Only on x86: indirect jumps, returns.
  if(ZABRA_HAS_CET)
    list(APPEND ZABRA_COMPILE_FLAGS -fcf-protection=full)
  endif()
  list(APPEND ZABRA_LINK_FLAGS -Wl,-z,relro,-z,now,-z,noexecstack)
endif()
