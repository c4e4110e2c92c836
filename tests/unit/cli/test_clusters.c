/* The list of clusters that run: several under one home, whatever their process numbers are. */
#include <dirent.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <criterion/criterion.h>

#include "cli/clusters.h"
#include "common/env/disk_os.h"

enum { HANG_S = 120 }; /* only what blocks for ever takes so long */

static char home[] = "/tmp/muster-clusters-XXXXXX";

static void begin(void)
{
    cr_assert(mkdtemp(home));
    cr_assert_eq(setenv("XDG_DATA_HOME", home, 1), 0);
    alarm(HANG_S);
}

static void finish(void)
{
    struct disk disk = disk_os();
    (void)disk.remove_tree(disk.self, home, NULL);
}

TestSuite(clusters, .init = begin, .fini = finish);

static void enter(const char *data, struct clusters_entry *ret)
{
    struct error err = {0};
    cr_assert_eq(clusters_enter(data, ret, &err), 0, "%s", err.text);
}

static int count_files(void)
{
    char path[128];
    int count = 0;
    (void)snprintf(path, sizeof(path), "%s/muster/clusters", home);
    DIR *folder = opendir(path);
    cr_assert(folder);
    for (const struct dirent *entry; (entry = readdir(folder));)
        count += entry->d_name[0] != '.';
    closedir(folder);
    return count;
}

/* As in two containers that share a home. */
Test(clusters, two_with_the_same_process_number_are_both_found)
{
    struct clusters_entry one, two;
    char data[PATH_MAX];
    enter("/data/one", &one);
    enter("/data/two", &two);
    cr_expect(clusters_runs("/data/one"));
    cr_expect(clusters_runs("/data/two"));
    cr_expect(clusters_current(data) && strcmp(data, "/data/two") == 0, "%s", data);
    clusters_leave("/data/two", &two);
    cr_expect(clusters_current(data) && strcmp(data, "/data/one") == 0, "%s", data);
    cr_expect(clusters_runs("/data/one"));
    clusters_leave("/data/one", &one);
    cr_expect_not(clusters_current(data), "%s", data);
    cr_expect_eq(count_files(), 0);
}

Test(clusters, what_a_killed_one_left_over_is_removed)
{
    struct clusters_entry killed, other;
    char data[PATH_MAX];
    enter("/data/killed", &killed);
    enter("/data/other", &other);
    close(killed.lock);
    cr_expect_not(clusters_runs("/data/killed"));
    cr_expect_eq(count_files(), 1);
    cr_expect(clusters_newest(NULL, data) && strcmp(data, "/data/other") == 0, "%s", data);
    clusters_leave("/data/other", &other);
}

static atomic_bool enough;

static void *look_again_and_again(void *arg)
{
    char data[PATH_MAX];
    while (!enough)
        (void)clusters_newest(NULL, data);
    return arg;
}

/* Between its creation and its lock a file looks like a rest. */
Test(clusters, one_that_is_looked_for_while_it_enters_stays)
{
    enum { TURNS = 2000, LOOKERS = 3 };
    pthread_t lookers[LOOKERS];
    for (int i = 0; i < LOOKERS; i++)
        cr_assert_eq(pthread_create(&lookers[i], NULL, look_again_and_again, NULL), 0);
    for (int i = 0; i < TURNS; i++) {
        struct clusters_entry entry;
        enter("/data/one", &entry);
        cr_assert(clusters_runs("/data/one"), "turn %d", i);
        clusters_leave("/data/one", &entry);
    }
    enough = true;
    for (int i = 0; i < LOOKERS; i++)
        pthread_join(lookers[i], NULL);
    cr_expect_eq(count_files(), 0);
}
