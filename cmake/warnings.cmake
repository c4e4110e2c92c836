# One set of warnings for both compilers; every one is an error.
add_compile_options(
  -Wall -Wextra -Werror -Wshadow -Wswitch-enum -Wvla -Wundef -Wpointer-arith -Wwrite-strings
  -Wformat=2 -Wimplicit-fallthrough -Wno-missing-field-initializers
  -fno-strict-aliasing -fno-omit-frame-pointer)
add_compile_options("$<$<COMPILE_LANGUAGE:C>:-Wstrict-prototypes;-Wmissing-prototypes;-Wold-style-definition>")
add_compile_definitions(_GNU_SOURCE _FILE_OFFSET_BITS=64)
include_directories(${CMAKE_SOURCE_DIR})
