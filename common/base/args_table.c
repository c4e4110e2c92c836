#include "common/base/args_table.h"

#include "common/base/str.h"

bool args_is_positional(const struct args_option *option)
{
    return option->kind == ARGS_POSITIONAL || option->kind == ARGS_WORDS ||
           option->kind == ARGS_COMMAND;
}

const char *args_value_name(const struct args_option *option, char ret[ARGS_VALUE_NAME_BYTES])
{
    if (option->value_name)
        return option->value_name;
    str_copy(ret, ARGS_VALUE_NAME_BYTES, option->name);
    for (char *p = ret; *p; p++)
        if (*p >= 'a' && *p <= 'z')
            *p = (char)(*p - 'a' + 'A');
    return ret;
}
