#include "coordinator/relay/channel.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/hex.h"
#include "common/base/str.h"

static int invalid(struct error *err, const char *field, const char *what)
{
    error_set(err, E_INVALID_ARGUMENT, "%s: %s", field, what);
    error_field(err, "%s", field);
    return E_INVALID_ARGUMENT;
}

static size_t argv_bytes(const struct channel_wish *wish)
{
    size_t bytes = 0;
    for (size_t i = 0; i < wish->argc; i++)
        bytes += strlen(wish->argv[i]) + 1;
    return bytes;
}

int channel_check(const struct channel_wish *wish, struct error *err)
{
    if (wish->port && (wish->argc > 0 || wish->terminal))
        return invalid(err, "port", "a connection has no program and no terminal");
    if (!wish->port && !wish->terminal && wish->argc == 0)
        return invalid(err, "argv", "a program without a terminal needs its name");
    if (wish->argc > CHANNEL_ARGS_MAX || argv_bytes(wish) > CHANNEL_ARGS_MAX_BYTES)
        return invalid(err, "argv", "more than 256 arguments, or more than 32 KiB of them");
    if (wish->argc > 0 && !wish->argv[0][0])
        return invalid(err, "argv", "the program's name is empty");
    if (strlen(wish->term) > CHANNEL_TERM_MAX)
        return invalid(err, "term", "more than 63 bytes");
    if (wish->rows > CHANNEL_SIDE_MAX || wish->columns > CHANNEL_SIDE_MAX)
        return invalid(err, wish->rows > CHANNEL_SIDE_MAX ? "rows" : "columns", "more than 4096");
    return 0;
}

/* Pointers and texts in one allocation. */
static char **argv_copy(const struct channel_wish *wish)
{
    char **ret = malloc((wish->argc + 1) * sizeof(*ret) + argv_bytes(wish));
    if (!ret)
        return NULL;
    char *at = (char *)(ret + wish->argc + 1);
    for (size_t i = 0; i < wish->argc; i++) {
        size_t size = strlen(wish->argv[i]) + 1;
        memcpy(at, wish->argv[i], size);
        ret[i] = at;
        at += size;
    }
    ret[wish->argc] = NULL;
    return ret;
}

/* Arguments are any bytes: the words are for terminals, logs and one line. */
static void words_of(const struct channel_wish *wish, char ret[CHANNEL_WORDS_MAX])
{
    enum { SHOWN_MAX = CHANNEL_WORDS_MAX - 8 };
    char line[SHOWN_MAX + 1];
    size_t used = 0;
    if (wish->port) {
        (void)str_printf(ret, CHANNEL_WORDS_MAX, "a connection to port %u", wish->port);
        return;
    }
    if (wish->argc == 0) {
        (void)str_copy(ret, CHANNEL_WORDS_MAX, "a shell");
        return;
    }
    bool whole = true;
    for (size_t i = 0; i < wish->argc && whole; i++) {
        if (i > 0)
            line[used++] = ' ';
        for (const char *c = wish->argv[i]; *c && whole; c++) {
            whole = used < SHOWN_MAX - 1;
            if (whole)
                line[used++] = *c > ' ' && *c < 0x7f && *c != '`' ? *c : *c == ' ' ? ' ' : '?';
        }
        whole = whole && used < SHOWN_MAX - 1;
    }
    line[used] = 0;
    (void)str_printf(ret, CHANNEL_WORDS_MAX, "`%s%s`", line, whole ? "" : "...");
}

int channel_new(const struct channel_wish *wish, const uint8_t *id, int64_t now_ms,
                struct channel **ret, struct error *err)
{
    struct channel *channel = calloc(1, sizeof(*channel));
    if (!channel || !(channel->argv = argv_copy(wish))) {
        free(channel);
        return error_set(err, E_RESOURCE_EXHAUSTED, "no memory for another channel");
    }
    hex_encode(id, CHANNEL_ID_BYTES, channel->id);
    (void)str_copy(channel->owner, sizeof(channel->owner), wish->owner);
    (void)str_copy(channel->user, sizeof(channel->user), wish->user);
    (void)str_copy(channel->tenant, sizeof(channel->tenant), wish->tenant);
    (void)str_copy(channel->job, sizeof(channel->job), wish->job);
    (void)str_copy(channel->node, sizeof(channel->node), wish->node);
    (void)str_copy(channel->term, sizeof(channel->term), wish->term);
    channel->incarnation = wish->incarnation;
    channel->uid = wish->uid;
    channel->rank = wish->rank;
    channel->argc = wish->argc;
    channel->terminal = wish->terminal;
    channel->rows = wish->rows;
    channel->columns = wish->columns;
    channel->port = wish->port;
    channel->opened_ms = channel->client_ms = channel->used_ms = now_ms;
    words_of(wish, channel->words);
    for (int i = 0; i < CHANNEL_STREAMS; i++)
        relay_pipe_init(&channel->pipes[i], now_ms);
    list_init(&channel->link);
    *ret = channel;
    return 0;
}

void channel_free(struct channel *channel)
{
    list_remove(&channel->link);
    free(channel->argv);
    free(channel);
}

bool channel_finish(struct channel *channel, const struct channel_end *end, int64_t now_ms)
{
    if (channel->over)
        return false;
    channel->over = true;
    channel->over_ms = now_ms;
    channel->end = *end;
    for (int i = 0; i < CHANNEL_STREAMS; i++)
        relay_pipe_end(&channel->pipes[i]);
    return true;
}

bool channel_stop(struct channel *channel, int64_t now_ms, const char *fmt, ...)
{
    struct channel_end end = {0};
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(end.text, sizeof(end.text), fmt, args);
    va_end(args);
    return channel_finish(channel, &end, now_ms);
}

void channel_end_text(const struct channel_end *end, char ret[CHANNEL_TEXT_MAX + 1])
{
    if (end->text[0])
        (void)str_copy(ret, CHANNEL_TEXT_MAX + 1, end->text);
    else if (end->signal)
        (void)str_printf(ret, CHANNEL_TEXT_MAX + 1, "signal %d", end->signal);
    else
        (void)str_printf(ret, CHANNEL_TEXT_MAX + 1, "exit code %d", end->code);
}
