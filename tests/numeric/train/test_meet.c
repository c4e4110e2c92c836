/* A member that is lost while a new generation meets. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tests/lib/check.h"
#include "tests/lib/open_files.h"
#include "tests/numeric/train/fake_session.h"
#include "tests/numeric/train/toy.h"

enum { STEPS = 30, MET_AFTER = 10 };

struct scene {
    struct fake_cluster cluster;
    struct toy toy;
    pthread_t ghost;
    bool invited;
    int files_before, files_after;
};

static void survivor_goes_on(struct fake_cluster *cluster)
{
    fake_form_locked(cluster, (const int[]){0}, 1);
}

/* Worker 1: connects as a member does, and ends before a word is compared. */
static void *be_ghost(void *arg)
{
    struct scene *scene = arg;
    struct session *session = fake_session(&scene->cluster, 1);
    struct session_group group = {0};
    struct comm_listener *listener;
    struct wk_comm *comm;
    struct error err = {0};
    CHECK(comm_listen("127.0.0.1", &listener, &err) == 0);
    CHECK(session->ops->join(session, comm_listener_endpoint(listener), 1, &group, &err) == 0);
    struct comm_options options = {.rank = group.rank,
                                   .world = group.world,
                                   .endpoints = group.endpoint_list,
                                   .hosts = group.hosts,
                                   .generation = group.generation};
    memcpy(options.secret, group.secret, sizeof(options.secret));
    CHECK(comm_connect(listener, &options, &comm, &err) == 0);
    wk_comm_close(comm);
    comm_listener_close(listener);
    session_group_fini(&group);
    session->ops->free(session);
    return NULL;
}

static bool invite_a_ghost(void *arg, struct wk_context *ctx)
{
    struct scene *scene = arg;
    if (wk_steps(ctx) == MET_AFTER && !scene->invited) {
        scene->invited = true;
        scene->files_before = open_files();
        fake_form(&scene->cluster, (const int[]){0, 1}, 2);
        pthread_create(&scene->ghost, NULL, be_ghost, scene);
    }
    if (wk_steps(ctx) == STEPS - 1) {
        pthread_join(scene->ghost, NULL);
        scene->files_after = open_files();
    }
    return false;
}

static void a_generation_that_breaks_while_it_meets_leaves_nothing(void)
{
    static struct scene scene;
    fake_init(&scene.cluster);
    scene.cluster.on_lost = survivor_goes_on;
    fake_form(&scene.cluster, (const int[]){0}, 1);
    scene.toy.session = fake_session(&scene.cluster, 0);
    scene.toy.stepped = invite_a_ghost;
    scene.toy.arg = &scene;
    toy_set(&scene.toy, "total_steps", "30");
    toy_run(&scene.toy);
    CHECK(scene.toy.status == 0 && scene.cluster.generation == 3);
    printf("%d files before, %d after\n", scene.files_before, scene.files_after);
    CHECK(scene.files_after == scene.files_before);
    fake_fini(&scene.cluster);
}

int main(int argc, char **argv)
{
    static const struct check_case cases[] = {
        CHECK_CASE(a_generation_that_breaks_while_it_meets_leaves_nothing),
        {0},
    };
    return check_all(cases, argc, argv);
}
