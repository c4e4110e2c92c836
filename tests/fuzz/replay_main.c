/* Stands in for libFuzzer where there is none: replays every file of the folders and files given,
 * and some thousand mutations of each, the same ones in every run.
 *
 * usage: TARGET [-mutations=N] PATH...
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/base/parse.h"
#include "common/base/rng.h"
#include "common/base/str.h"
#include "tests/fuzz/fuzz.h"

enum { INPUT_MAX = 1 << 20, PATH_ROOM = 1024, DEFAULT_MUTATIONS = 2000, EDITS_MAX = 8 };

struct replay {
    uint8_t *input, *mutant;
    struct rng rng;
    int64_t mutations;
    size_t files;
};

/* Flip, insert, delete, repeat: a few small edits find most of what hand-written inputs miss. */
static size_t mutate(struct replay *r, size_t size)
{
    memcpy(r->mutant, r->input, size);
    for (uint64_t edits = 1 + rng_below(&r->rng, EDITS_MAX); edits > 0; edits--) {
        size_t at = size ? rng_below(&r->rng, size) : 0;
        switch (rng_below(&r->rng, 4)) {
        case 0:
            if (size)
                r->mutant[at] ^= (uint8_t)(1 << rng_below(&r->rng, 8));
            break;
        case 1:
            if (size < INPUT_MAX) {
                memmove(r->mutant + at + 1, r->mutant + at, size - at);
                r->mutant[at] = (uint8_t)rng_next(&r->rng);
                size++;
            }
            break;
        case 2:
            if (size) {
                memmove(r->mutant + at, r->mutant + at + 1, size - at - 1);
                size--;
            }
            break;
        default: {
            size_t length = size ? rng_below(&r->rng, size - at) : 0;
            if (size + length <= INPUT_MAX) {
                memmove(r->mutant + at + length, r->mutant + at, size - at);
                size += length;
            }
        }
        }
    }
    return size;
}

/* A copy of exactly the size, so that sanitizers see a read behind its end. */
static void feed(const uint8_t *bytes, size_t size)
{
    uint8_t *exact = malloc(size ? size : 1);
    if (!exact)
        return;
    memcpy(exact, bytes, size);
    LLVMFuzzerTestOneInput(exact, size);
    free(exact);
}

static int replay_file(struct replay *r, const char *path)
{
    FILE *file = fopen(path, "rb");
    if (!file) {
        perror(path);
        return 1;
    }
    size_t size = fread(r->input, 1, INPUT_MAX, file);
    fclose(file);
    feed(r->input, size);
    for (int64_t i = 0; i < r->mutations; i++)
        feed(r->mutant, mutate(r, size));
    r->files++;
    return 0;
}

static int replay_path(struct replay *r, const char *path)
{
    struct stat info;
    if (stat(path, &info) != 0) {
        perror(path);
        return 1;
    }
    if (!S_ISDIR(info.st_mode))
        return replay_file(r, path);
    struct dirent **entries;
    int count = scandir(path, &entries, NULL, alphasort);
    int rc = count < 0;
    for (int i = 0; i < count; i++) {
        char name[PATH_ROOM];
        if (entries[i]->d_name[0] != '.' &&
            str_printf(name, sizeof(name), "%s/%s", path, entries[i]->d_name) == 0)
            rc |= replay_file(r, name);
        free(entries[i]);
    }
    if (count >= 0)
        free(entries);
    return rc;
}

int main(int argc, char **argv)
{
    struct replay r = {
        .input = malloc(INPUT_MAX), .mutant = malloc(INPUT_MAX), .mutations = DEFAULT_MUTATIONS};
    rng_seed(&r.rng, 1);
    int rc = !r.input || !r.mutant;
    for (int i = 1; i < argc && rc == 0; i++) {
        if (str_starts(argv[i], "-mutations="))
            rc = parse_i64(argv[i] + strlen("-mutations="), 0, 1000000000, &r.mutations, NULL);
        else if (argv[i][0] != '-') /* libFuzzer's own flags mean nothing here */
            rc = replay_path(&r, argv[i]);
    }
    printf("%zu files, %lld mutations of each\n", r.files, (long long)r.mutations);
    free(r.input);
    free(r.mutant);
    return rc != 0;
}
