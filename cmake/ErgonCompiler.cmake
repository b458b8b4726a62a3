# What ergon asks of the platform and the compiler, and `ergon_compile_options`, which gives a target of the house its flags.
if(NOT CMAKE_SYSTEM_NAME STREQUAL "Linux")
  message(FATAL_ERROR "ergon runs on Linux (it uses epoll, eventfd, inotify and /proc); this is ${CMAKE_SYSTEM_NAME}.")
endif()

set(_ergon_remedy "On Debian 12 run: apt-get install clang-19 lld-19\n"
                  "then configure with: cmake --preset release (or -DCMAKE_CXX_COMPILER=clang++-19).")
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  message(FATAL_ERROR
    "ergon cannot be built with GCC ${CMAKE_CXX_COMPILER_VERSION}: GCC older than 13 miscompiles coroutines (a temporary inside a "
    "co_await expression is destroyed twice). Use clang 19, or GCC 13 or later.\n" ${_ergon_remedy})
elseif(CMAKE_CXX_COMPILER_ID STREQUAL "Clang" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 19)
  message(FATAL_ERROR
    "ergon cannot be built with clang ${CMAKE_CXX_COMPILER_VERSION}: clang older than 19 hides libstdc++'s std::expected. "
    "Use clang 19 or later, or GCC 13 or later.\n" ${_ergon_remedy})
elseif(NOT CMAKE_CXX_COMPILER_ID MATCHES "^(GNU|Clang)$")
  message(WARNING "ergon is built and tested with clang 19; ${CMAKE_CXX_COMPILER_ID} is not tried by anybody.")
endif()

if(PROJECT_IS_TOP_LEVEL)
  if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
    set(CMAKE_BUILD_TYPE Release CACHE STRING "Release or Debug" FORCE)
  endif()
  set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
  find_program(ERGON_CCACHE ccache)
  if(ERGON_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
    # The sloppiness is what ccache asks for where precompiled headers are in use. The build folder's name is no part of a result
    # (sources have absolute paths), so that the consumer test finds there what this build has compiled.
    set(CMAKE_CXX_COMPILER_LAUNCHER "${CMAKE_COMMAND}" -E env CCACHE_NOHASHDIR=1
      "CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime" "${ERGON_CCACHE}")
  endif()
  find_program(ERGON_LLD NAMES ld.lld-19 ld.lld)
  if(ERGON_LLD AND CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    add_link_options("--ld-path=${ERGON_LLD}")
  endif()
  # A program records only the shared libraries that it really uses.
  add_link_options("LINKER:--as-needed")
  # Line numbers in stack traces and sanitizer reports at a fraction of the size of full debug information.
  string(APPEND CMAKE_CXX_FLAGS_RELEASE " -g1 -gdwarf-4")
endif()

# Flags for a target of this house: a part, a test, an example, a benchmark.
function(ergon_compile_options target)
  set_target_properties(${target} PROPERTIES
    CXX_STANDARD 23 CXX_STANDARD_REQUIRED ON CXX_EXTENSIONS OFF CXX_SCAN_FOR_MODULES OFF
    CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON POSITION_INDEPENDENT_CODE ON)
  target_compile_options(${target} PRIVATE -Wall -Wextra $<$<BOOL:${ERGON_WERROR}>:-Werror>)
  if(ERGON_SANITIZE)
    target_compile_options(${target} PRIVATE
      "-fsanitize=${ERGON_SANITIZE}" -fno-sanitize-recover=all -fno-omit-frame-pointer)
    if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
      target_compile_options(${target} PRIVATE -gline-tables-only -gdwarf-4)
    endif()
    target_link_options(${target} PRIVATE "-fsanitize=${ERGON_SANITIZE}")
  endif()
endfunction()
