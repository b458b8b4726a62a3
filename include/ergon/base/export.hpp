// What every public header includes first: the compilers that ergon refuses, and the visibility of its symbols.
// The ABI is unstable before 1.0: rebuild what links ergon whenever ergon changes.
#pragma once

#if defined(__GNUC__) && !defined(__clang__) && __GNUC__ < 13
#error \
    "ergon: GCC older than 13 miscompiles coroutines (temporaries inside co_await are destroyed twice). Use clang 19 or GCC 13 or later."
#endif

#define ERGON_EXPORT __attribute__((visibility("default")))
