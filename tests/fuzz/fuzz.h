/* What a fuzz target is: one function that must survive any bytes. Under clang (-DCMAKE_C_COMPILER=
 * clang) libFuzzer calls it; built otherwise, replay_main.c feeds it files and mutations of them.
 */
#ifndef FUZZ_H
#define FUZZ_H

#include <stddef.h>
#include <stdint.h>

/* libFuzzer's contract and name: returns 0, keeps nothing. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#endif
