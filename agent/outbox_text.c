#include "agent/outbox_text.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/str.h"
#include "common/rpc/message.h"

/* Marks the number of a worker as that of the writer beside it (proto/node.proto). */
static const uint64_t BESIDE = 1ULL << 63;

/* Whole lines of valid UTF-8, as reports must be. */
static char *copy_lines(const char *text, size_t size)
{
    char *copy = malloc(size + 2);
    size_t at = 0;
    for (size_t step; copy && at < size; at += step) {
        step = utf8_decode(text + at, size - at, NULL);
        if (step && text[at])
            memcpy(copy + at, text + at, step);
        else
            copy[at] = '?';
        step = step ? step : 1;
    }
    if (copy && (size == 0 || copy[size - 1] != '\n'))
        copy[size++] = '\n';
    if (copy)
        copy[size] = '\0';
    return copy;
}

void outbox_texts_add(struct outbox_texts *texts, const struct outbox_text *about, const char *text,
                      size_t size)
{
    struct outbox_text **last = &texts->first;
    size_t bytes = size + sizeof(struct outbox_text) + 2; /* a line end, and the NUL */
    struct outbox_text *made =
        texts->bytes + bytes <= OUTBOX_TEXTS_BYTES ? malloc(sizeof(*made)) : NULL;
    char *copy = made ? copy_lines(text, size) : NULL;
    if (!copy) {
        free(made);
        return;
    }
    *made = *about;
    made->text = copy;
    made->bytes = bytes;
    made->in_flight = false;
    made->link = NULL;
    while (*last)
        last = &(*last)->link;
    *last = made;
    texts->bytes += made->bytes;
}

static void forget(struct outbox_texts *texts, bool only_sent)
{
    for (struct outbox_text **at = &texts->first; *at;) {
        struct outbox_text *text = *at;
        if (only_sent && !text->in_flight) {
            at = &text->link;
            continue;
        }
        *at = text->link;
        texts->bytes -= text->bytes;
        free(text->text);
        free(text);
    }
}

void outbox_texts_fini(struct outbox_texts *texts)
{
    forget(texts, false);
}

/* As output of a second writer beside the worker. Its lines are numbered by time, so that a later
 * agent's do not seem to be repeats. */
static Muster__LogChunk *chunk_of_text(const struct outbox_text *from, struct arena *arena)
{
    size_t count = 0, at = 0;
    char *text = arena_strdup(arena, from->text), *line;
    for (const char *c = from->text; *c; c++)
        count += *c == '\n';
    Muster__LogChunk *chunk = arena_alloc(arena, sizeof(*chunk));
    Muster__LogLine *lines = arena_array(arena, count + 1, sizeof(*lines));
    Muster__LogLine **pointers = arena_pointers(arena, count + 1);
    if (!text || !chunk || !lines || !pointers)
        return NULL;
    muster__log_chunk__init(chunk);
    chunk->job = rpc_text(from->key.job);
    chunk->uid = from->key.uid | BESIDE;
    chunk->rank = from->rank;
    chunk->generation = from->generation;
    chunk->offset = (uint64_t)from->wall_ms * 1000;
    chunk->lines = pointers;
    while (at < count && (line = strsep(&text, "\n"))) {
        muster__log_line__init(&lines[at]);
        lines[at].wall_ms = from->wall_ms;
        lines[at].rank = from->rank;
        lines[at].generation = from->generation;
        lines[at].is_stderr = true;
        lines[at].text = line;
        pointers[at] = &lines[at];
        at++;
    }
    chunk->n_lines = at;
    return chunk;
}

void outbox_texts_fill(struct outbox_texts *texts, struct arena *arena, Muster__NodeReport *report)
{
    size_t bytes = 0;
    int count = 0;
    for (struct outbox_text *t = texts->first; t && count < OUTBOX_TEXTS_REPORT_MAX; t = t->link) {
        bool fits = count == 0 || bytes + t->bytes <= OUTBOX_TEXTS_REPORT_BYTES;
        Muster__LogChunk *chunk = fits && report->logs ? chunk_of_text(t, arena) : NULL;
        if (!chunk)
            return;
        report->logs[report->n_logs++] = chunk;
        t->in_flight = true;
        bytes += t->bytes;
        count++;
    }
}

bool outbox_texts_in_flight(const struct outbox_texts *texts)
{
    for (const struct outbox_text *t = texts->first; t; t = t->link)
        if (t->in_flight)
            return true;
    return false;
}

void outbox_texts_done(struct outbox_texts *texts, bool acknowledged)
{
    if (acknowledged)
        forget(texts, true);
    for (struct outbox_text *t = texts->first; t; t = t->link)
        t->in_flight = false;
}
