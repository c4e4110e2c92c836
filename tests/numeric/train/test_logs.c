/* The files of logs and the trace when the process that was rank 0 is lost: another one goes on
 * with them, and no step that counts is missing. */
#include <dirent.h>
#include <stdio.h>
#include <string.h>

#include "tests/lib/check.h"
#include "tests/lib/tmpdir.h"
#include "tests/numeric/train/fake_session.h"
#include "tests/numeric/train/toy.h"

enum { RANKS = 3, STEPS = 30, LOST_AT = 10, NEXT_AT = 20, ROOM = 1 << 20 };

static struct toy toys[RANKS];

/* Worker 0 leaves in the middle of the step behind the tenth, worker 1 of that behind the
 * twentieth. */
static bool leave(void *arg, struct wk_context *ctx)
{
    int64_t at = arg == &toys[0] ? LOST_AT : arg == &toys[1] ? NEXT_AT : STEPS + 1;
    return wk_steps(ctx) == at;
}

static void others_go_on(struct fake_cluster *cluster)
{
    if (cluster->n_members == 3)
        fake_form_locked(cluster, (const int[]){1, 2}, 2);
    else
        fake_form_locked(cluster, (const int[]){2}, 1);
}

static void run(const struct tmpdir *dir, const char *strategy)
{
    struct fake_cluster cluster;
    pthread_t threads[RANKS];
    fake_init(&cluster);
    cluster.on_lost = others_go_on;
    fake_form(&cluster, (const int[]){0, 1, 2}, RANKS);
    for (int i = 0; i < RANKS; i++) {
        toys[i] = (struct toy){.session = fake_session(&cluster, i), .custom = true};
        toys[i].stepped = leave;
        toys[i].arg = &toys[i];
        toy_set(&toys[i], "total_steps", "30");
        toy_set(&toys[i], "strategy", strategy);
        toy_set(&toys[i], "log_file", tmpdir_path(dir, "log.jsonl"));
        toy_set(&toys[i], "log_csv", tmpdir_path(dir, "log.csv"));
        toy_set(&toys[i], "log_tensorboard", tmpdir_path(dir, "events"));
        toy_set(&toys[i], "trace_file", tmpdir_path(dir, "trace.json"));
        pthread_create(&threads[i], NULL, toy_thread, &toys[i]);
    }
    for (int i = 0; i < RANKS; i++)
        pthread_join(threads[i], NULL);
    fake_fini(&cluster);
    CHECK(toys[2].status == 0 && toys[2].losses[STEPS] != 0);
}

static const char *read_text(const struct tmpdir *dir, const char *name)
{
    static char text[ROOM];
    FILE *file = fopen(tmpdir_path(dir, name), "r");
    CHECK(file != NULL);
    text[fread(text, 1, ROOM - 1, file)] = 0;
    fclose(file);
    return text;
}

static int times(const char *text, const char *word)
{
    int count = 0;
    for (; (text = strstr(text, word)); text++)
        count++;
    return count;
}

static int files_in(const struct tmpdir *dir, const char *name)
{
    int count = 0;
    DIR *folder = opendir(tmpdir_path(dir, name));
    CHECK(folder != NULL);
    for (const struct dirent *entry; (entry = readdir(folder));)
        count += *entry->d_name != '.';
    closedir(folder);
    return count;
}

static void the_next_rank_0_goes_on_with_the_files(void)
{
    struct tmpdir dir = tmpdir_make();
    run(&dir, "ddp");
    for (int step = 1; step <= STEPS; step++) {
        char json[64], csv[64], span[128];
        snprintf(json, sizeof(json), "\"step\":%d,\"name\":\"loss\"", step);
        CHECK(times(read_text(&dir, "log.jsonl"), json) == 1);
        snprintf(csv, sizeof(csv), "\n%d,", step);
        CHECK(times(read_text(&dir, "log.csv"), csv) >= 1);
        snprintf(span, sizeof(span), "\"step\":%d}}", step);
        CHECK(times(read_text(&dir, "trace.json"), span) >= 2);
    }
    CHECK(times(read_text(&dir, "log.csv"), "step,time,name,value") == 1);
    const char *trace = read_text(&dir, "trace.json");
    CHECK(times(trace, "process_name") == 3 && times(trace, "[") == 1 && times(trace, "]") == 1);
    CHECK(trace[0] == '[' && strcmp(trace + strlen(trace) - 3, "\n]\n") == 0);
    CHECK(files_in(&dir, "events") >= 1);
    tmpdir_remove(&dir);
}

static void a_place_that_the_next_rank_0_cannot_write_to_is_a_notice(void)
{
    static struct toy *second = &toys[1];
    struct fake_cluster cluster;
    struct tmpdir dir = tmpdir_make();
    pthread_t threads[RANKS];
    fake_init(&cluster);
    cluster.on_lost = others_go_on;
    fake_form(&cluster, (const int[]){0, 1, 2}, RANKS);
    for (int i = 0; i < RANKS; i++) {
        toys[i] = (struct toy){.session = fake_session(&cluster, i), .custom = true};
        toys[i].stepped = leave;
        toys[i].arg = &toys[i];
        toy_set(&toys[i], "total_steps", "15");
        toy_set(&toys[i], "log_file", tmpdir_path(&dir, i ? "nowhere/log.jsonl" : "log.jsonl"));
        pthread_create(&threads[i], NULL, toy_thread, &toys[i]);
    }
    for (int i = 0; i < RANKS; i++)
        pthread_join(threads[i], NULL);
    fake_fini(&cluster);
    CHECK(second->status == 0 && second->losses[15] != 0);
    CHECK(strstr(second->notices, "its logs end") && strstr(second->notices, "nowhere"));
    tmpdir_remove(&dir);
}

struct exchange {
    struct fake_cluster cluster;
    pthread_t thread;
};

/* Another process comes, which becomes rank 0. */
static bool invite(void *arg, struct wk_context *ctx)
{
    struct exchange *exchange = arg;
    if (wk_steps(ctx) != LOST_AT)
        return false;
    fake_form(&exchange->cluster, (const int[]){1, 0}, 2);
    pthread_create(&exchange->thread, NULL, toy_thread, &toys[1]);
    return false;
}

static void a_new_process_that_becomes_rank_0_trains_on_without_logs(void)
{
    static struct exchange exchange;
    struct tmpdir dir = tmpdir_make();
    fake_init(&exchange.cluster);
    fake_form(&exchange.cluster, (const int[]){0}, 1);
    for (int i = 0; i < 2; i++) {
        toys[i] = (struct toy){.session = fake_session(&exchange.cluster, i), .custom = true};
        toy_set(&toys[i], "total_steps", "15");
        toy_set(&toys[i], "log_file", tmpdir_path(&dir, i ? "nowhere/log.jsonl" : "log.jsonl"));
    }
    toys[0].stepped = invite;
    toys[0].arg = &exchange;
    toy_run(&toys[0]);
    pthread_join(exchange.thread, NULL);
    fake_fini(&exchange.cluster);
    CHECK(toys[0].status == 0 && toys[1].status == 0 && toys[1].losses[15] != 0);
    CHECK(strstr(toys[1].notices, "its logs end") && strstr(toys[1].notices, "nowhere"));
    tmpdir_remove(&dir);
}

int main(int argc, char **argv)
{
    static const struct check_case cases[] = {
        CHECK_CASE(the_next_rank_0_goes_on_with_the_files),
        CHECK_CASE(a_place_that_the_next_rank_0_cannot_write_to_is_a_notice),
        CHECK_CASE(a_new_process_that_becomes_rank_0_trains_on_without_logs),
        {0},
    };
    return check_all(cases, argc, argv);
}
