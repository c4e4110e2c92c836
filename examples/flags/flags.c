#include "examples/flags/flags.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A number above 0 that is all of `text`, or 0. */
static double positive(const char *text)
{
    char *end;
    double value = strtod(text, &end);
    return end != text && !*end && value > 0 && value < 1e9 ? value : 0;
}

/* 0, or -1: no such flag, or not a value of its kind. */
static int set(struct flags *flags, const char *name, const char *value)
{
    double number = positive(value);
    if (strcmp(name, "--steps") == 0)
        flags->steps = value;
    else if (strcmp(name, "--batch") == 0)
        flags->batch = (int64_t)number;
    else if (strcmp(name, "--rate") == 0)
        flags->rate = number;
    else
        return -1;
    return number > 0 && flags->batch > 0 ? 0 : -1;
}

int flags_parse(int argc, char **argv, struct flags *flags)
{
    int at = 1;
    while (at + 1 < argc && set(flags, argv[at], argv[at + 1]) == 0)
        at += 2;
    if (at + 1 == argc && flags->text && argv[at][0] != '-')
        flags->text = argv[at++];
    if (at == argc)
        return 0;
    (void)fprintf(stderr, "usage: %s [--steps N] [--batch N] [--rate X]%s\n", argv[0],
                  flags->text ? " [TEXT]" : "");
    return -1;
}
