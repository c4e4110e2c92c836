/* Properties of a row that parsing, help and completion all need. Private to args*.c. */
#ifndef BASE_ARGS_TABLE_H
#define BASE_ARGS_TABLE_H

#include "common/base/args.h"

enum { ARGS_VALUE_NAME_BYTES = 64 };

bool args_is_positional(const struct args_option *option);

/* The value's name in the help: its value_name, or its name in capitals. */
const char *args_value_name(const struct args_option *option, char ret[ARGS_VALUE_NAME_BYTES]);

#endif
