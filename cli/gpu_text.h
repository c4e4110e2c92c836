/* GPUs of a node as tables and lines show them; "-" where nothing is known. No state. */
#ifndef CLI_GPU_TEXT_H
#define CLI_GPU_TEXT_H

#include <stdio.h>

#include "proto/client.pb-c.h"

enum { GPU_TEXT_MAX = 96 };

const char *gpu_models_text(const Muster__Node *node, char ret[GPU_TEXT_MAX]); /* "8 x H200" */
const char *gpu_used_text(const Muster__Node *node, char ret[GPU_TEXT_MAX]);   /* mean, "87%" */
const char *gpu_memory_text(const Muster__Node *node, char ret[GPU_TEXT_MAX]); /* "1G/141G" */

/* A line for each GPU that needs an administrator: lost, with errors, or slowed down. */
void gpu_tell_faults(const Muster__Node *node, FILE *out);

/* A table with a row and a column for each GPU: how each pair is connected, and where it is. */
void gpu_print_links(const Muster__Node *node, FILE *out);

#endif
