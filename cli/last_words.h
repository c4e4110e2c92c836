/* Shows people a program's output before its failure: a bar before each line, and no control
 * characters for the terminal. */
#ifndef CLI_LAST_WORDS_H
#define CLI_LAST_WORDS_H

#include <stdio.h>

/* Prints nothing for "". `indent` is printed before each line. */
void print_last_words(FILE *out, const char *indent, const char *text);

#endif
