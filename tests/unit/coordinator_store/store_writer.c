/* Commits meta "last" = 1, 2, 3... with an event each, and writes each number to standard output
 * once its commit has returned. Started on a directory that already has some, it goes on. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "coordinator/store/meta.h"
#include "coordinator/store/store_sqlite.h"

int main(int argc, char **argv)
{
    struct store *store;
    struct error err = {0};
    char value[STORE_META_VALUE_MAX + 1];
    if (argc != 2 || store_sqlite_open(argv[1], &store, &err) < 0) {
        fprintf(stderr, "store_writer: %s\n", err.text);
        return 1;
    }
    const struct store_verbs *verbs = store->verbs;
    long last = verbs->get_meta(store, "last", value, NULL) == 0 ? strtol(value, NULL, 10) : 0;
    for (;;) {
        struct record record = {.kind = "tick", .reason.rank = -1};
        uint64_t seq;
        snprintf(value, sizeof(value), "%ld", ++last);
        if (verbs->begin(store, &err) < 0 || verbs->put_meta(store, "last", value, &err) < 0 ||
            verbs->record(store, &record, &seq, &err) < 0 || verbs->commit(store, &err) < 0) {
            fprintf(stderr, "store_writer: %s\n", err.text);
            return 1;
        }
        if (seq != (uint64_t)last || write(STDOUT_FILENO, &last, sizeof(last)) != sizeof(last))
            return 1;
    }
}
