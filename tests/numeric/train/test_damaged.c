/* Resuming where the newest checkpoint has a damaged file: all ranks go on from the one before it,
 * as an undisturbed run does, under any strategy; where it is the only one all refuse. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "libworker/checkpoint/list.h"
#include "tests/lib/check.h"
#include "tests/lib/tmpdir.h"
#include "tests/numeric/train/fake_session.h"
#include "tests/numeric/train/toy.h"

enum { RANKS_MAX = 3, NEWEST = 6, BEFORE = 4, STEPS = 8, ROOM = 1 << 20, NESTED = 1 << 14 };

struct way {
    const char *strategy;
    int ranks;
};

static struct toy toys[RANKS_MAX];

/* So that no checkpoint is left out because the one before it is still being written. */
static bool wait_for_it(void *arg, struct wk_context *ctx)
{
    (void)arg;
    wk_save_wait(ctx);
    return false;
}

/* All ranks to step `total`, beginning with the newest checkpoint in `dir`, "" for none. */
static void run(struct way way, const char *dir, const char *total)
{
    static const int workers[RANKS_MAX] = {0, 1, 2};
    struct fake_cluster cluster;
    pthread_t threads[RANKS_MAX];
    fake_init(&cluster);
    fake_form(&cluster, workers, way.ranks);
    for (int i = 0; i < way.ranks; i++) {
        toys[i] = (struct toy){
            .session = fake_session(&cluster, i), .custom = true, .stepped = wait_for_it};
        toy_set(&toys[i], "total_steps", total);
        toy_set(&toys[i], "strategy", way.strategy);
        if (*dir) {
            toy_set(&toys[i], "checkpoint.dir", dir);
            toy_set(&toys[i], "checkpoint.every", "2 steps");
            toy_set(&toys[i], "resume_from", "latest");
        }
        pthread_create(&threads[i], NULL, toy_thread, &toys[i]);
    }
    for (int i = 0; i < way.ranks; i++)
        pthread_join(threads[i], NULL);
    fake_fini(&cluster);
}

struct content {
    char path[512];
    char *bytes;
    size_t size;
};

static struct content read_file(const char *dir, const char *name)
{
    struct content file = {.bytes = malloc(ROOM)};
    snprintf(file.path, sizeof(file.path), "%s/step-%08d/%s", dir, NEWEST, name);
    FILE *in = fopen(file.path, "rb");
    CHECK(file.bytes && in);
    file.size = fread(file.bytes, 1, ROOM, in);
    CHECK(file.size > 0 && file.size < ROOM);
    fclose(in);
    return file;
}

static void write_file(const struct content *file, size_t size)
{
    FILE *out = fopen(file->path, "wb");
    CHECK(out && fwrite(file->bytes, 1, size, out) == size);
    fclose(out);
}

static void flip(struct content *file, size_t at)
{
    file->bytes[at] ^= 4;
    write_file(file, file->size);
    file->bytes[at] ^= 4;
}

static void nest(const struct content *file)
{
    FILE *out = fopen(file->path, "wb");
    for (int i = 0; i < NESTED; i++)
        fputc('[', out);
    fclose(out);
}

enum damage { EMPTY, CUT, START, END, MIDDLE, GONE, FOLDER, UNREADABLE, HUGE, DEEP, DAMAGES };

static void spoil(struct content *file, enum damage damage)
{
    switch (damage) {
    case EMPTY:
        return write_file(file, 0);
    case CUT:
        return write_file(file, file->size - file->size / 3);
    case START:
        return flip(file, 9);
    case END:
        return flip(file, file->size - 5);
    case MIDDLE:
        return flip(file, file->size / 2);
    case GONE:
        CHECK(unlink(file->path) == 0);
        return;
    case FOLDER:
        CHECK(unlink(file->path) == 0 && mkdir(file->path, 0700) == 0);
        return;
    case UNREADABLE: /* for root, too */
        CHECK(unlink(file->path) == 0 && symlink(file->path, file->path) == 0);
        return;
    case HUGE:
        CHECK(truncate(file->path, (off_t)1 << 40) == 0);
        return;
    case DEEP:
        return nest(file);
    case DAMAGES:
        break;
    }
}

static void mend(const struct content *file)
{
    (void)(rmdir(file->path) && unlink(file->path));
    write_file(file, file->size);
}

static void expect_all_from_the_one_before(struct way way, const double *whole)
{
    for (int i = 0; i < way.ranks; i++) {
        CHECK(toys[i].status == 0 && toys[i].exit_code == 0);
        CHECK(toys[i].losses[BEFORE] == 0);
        CHECK(memcmp(&toys[i].losses[BEFORE + 1], &whole[BEFORE + 1],
                     (STEPS - BEFORE) * sizeof(*whole)) == 0);
    }
}

/* A folder without a manifest is no checkpoint, and passed over without a word. */
static bool is_told(const char *name, int damage)
{
    return strcmp(name, "manifest.json") != 0 || (damage != GONE && damage != UNREADABLE);
}

static void remove_step(const char *dir, int step)
{
    char path[CHECKPOINT_PATH_MAX];
    CHECK(checkpoint_path(dir, step, path) == 0 && checkpoint_remove(path, NULL) == 0);
}

/* Each damage to one file of the newest checkpoint. */
static void damage_one(struct way way, const char *dir, const char *name, const double *whole)
{
    struct content file = read_file(dir, name);
    for (int damage = EMPTY; damage < DAMAGES; damage++) {
        printf("%s on %d: %s, damage %d\n", way.strategy, way.ranks, name, damage);
        spoil(&file, (enum damage)damage);
        run(way, dir, "8");
        expect_all_from_the_one_before(way, whole);
        const char *told = strstr(toys[0].notices, "taking the one before it, step 4");
        CHECK(!told == !is_told(name, damage));
        remove_step(dir, STEPS);
        mend(&file); /* it was written anew */
    }
    free(file.bytes);
}

static void every_damage(struct way way)
{
    struct tmpdir dir = tmpdir_make();
    double whole[STEPS + 1];
    char shard[64];
    run(way, "", "8");
    CHECK(toys[0].status == 0);
    memcpy(whole, toys[0].losses, sizeof(whole));
    run(way, dir.path, "6");
    CHECK(toys[0].status == 0);
    damage_one(way, dir.path, "manifest.json", whole);
    damage_one(way, dir.path, "state.json", whole);
    int shards = strcmp(way.strategy, "ddp") == 0 ? 1 : way.ranks;
    snprintf(shard, sizeof(shard), "rank-%05d-of-%05d.safetensors", shards - 1, shards);
    damage_one(way, dir.path, shard, whole);
    tmpdir_remove(&dir);
}

static void any_damage_leads_all_ranks_to_the_checkpoint_before(void)
{
    static const struct way ways[] = {{"ddp", 1}, {"ddp", 2}, {"zero1", 2}, {"fsdp", 3}};
    for (int i = 0; i < 4; i++)
        every_damage(ways[i]);
}

static void refuse_all(struct way way)
{
    struct tmpdir dir = tmpdir_make();
    run(way, dir.path, "6");
    remove_step(dir.path, 2);
    remove_step(dir.path, BEFORE);
    struct content file = read_file(dir.path, "manifest.json");
    write_file(&file, 0);
    run(way, dir.path, "8");
    for (int i = 0; i < way.ranks; i++) {
        CHECK(toys[i].status == WK_EIO && toys[i].exit_code == 1);
        CHECK(toys[i].losses[1] == 0 && toys[i].losses[NEWEST + 1] == 0);
    }
    CHECK(strstr(toys[0].error, "manifest.json"));
    free(file.bytes);
    tmpdir_remove(&dir);
}

static void damage_to_the_only_checkpoint_is_an_error_on_all(void)
{
    refuse_all((struct way){"ddp", 2});
    refuse_all((struct way){"zero2", 3});
}

int main(int argc, char **argv)
{
    static const struct check_case cases[] = {
        CHECK_CASE(any_damage_leads_all_ranks_to_the_checkpoint_before),
        CHECK_CASE(damage_to_the_only_checkpoint_is_an_error_on_all),
        {0},
    };
    return check_all(cases, argc, argv);
}
