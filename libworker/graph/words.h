/* A graph's model in words (nn/words.h). */
#ifndef GRAPH_WORDS_H
#define GRAPH_WORDS_H

#include "libworker/nn/words.h"

extern const struct words_ops graph_words_ops;

#endif
