/* The command line of small examples: PROGRAM [--steps N] [--batch N] [--rate X] [TEXT]. */
#ifndef FLAGS_H
#define FLAGS_H

#include <stdint.h>

struct flags {
    const char *steps; /* the setting total_steps */
    int64_t batch;     /* samples of a global batch */
    double rate;       /* of learning */
    const char *text;  /* a path; NULL if the program reads none */
};

/* Change what the command line names; *flags has the defaults. A program with a `text` takes a path
 * in its place. 0, or -1 after writing the usage to standard error. Texts point into argv. */
int flags_parse(int argc, char **argv, struct flags *flags);

#endif
