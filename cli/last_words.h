/* What a program wrote before it failed, shown to people: a bar before each line, and nothing that
 * a terminal would obey. */
#ifndef CLI_LAST_WORDS_H
#define CLI_LAST_WORDS_H

#include <stdio.h>

/* Nothing where `text` is "". `indent` goes before each line. */
void print_last_words(FILE *out, const char *indent, const char *text);

#endif
