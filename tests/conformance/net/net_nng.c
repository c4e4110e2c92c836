/* The suite on net_nng, over loopback tcp and over a unix socket. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/env/net_nng.h"
#include "common/loop/loop.h"
#include "tests/conformance/net/net_suite.h"

enum { PROGRAMS_MAX = 64 };

struct real_world {
    struct {
        struct net net;
        struct loop *loop;
    } programs[PROGRAMS_MAX];
    int program_count;
    char folder[64]; /* of ipc sockets; "" for tcp */
    int places;
    char url[128];
};

static int real_program(void *self, struct net **ret_net, struct loop **ret_loop)
{
    struct real_world *w = self;
    if (w->program_count == PROGRAMS_MAX)
        return E_RESOURCE_EXHAUSTED;
    int rc = loop_new(&w->programs[w->program_count].loop, NULL);
    if (rc == 0)
        rc = net_nng_init(&w->programs[w->program_count].net, w->programs[w->program_count].loop,
                          NULL);
    if (rc != 0)
        return rc;
    *ret_net = &w->programs[w->program_count].net;
    *ret_loop = w->programs[w->program_count].loop;
    w->program_count++;
    return 0;
}

static const char *real_place(void *self)
{
    struct real_world *w = self;
    if (w->folder[0])
        snprintf(w->url, sizeof(w->url), "ipc://%s/%d.sock", w->folder, w->places++);
    else
        snprintf(w->url, sizeof(w->url), "tcp://127.0.0.1:0");
    return w->url;
}

static int64_t now_us(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (int64_t)ts.tv_sec * 1000000 + ts.tv_nsec / 1000;
}

static void real_turn(void *self, int64_t ms)
{
    struct real_world *w = self;
    int64_t until = now_us() + ms * 1000;
    do {
        for (int i = 0; i < w->program_count; i++)
            loop_turn(w->programs[i].loop);
        usleep(100);
    } while (now_us() < until);
}

static int run(const char *name, const char *folder)
{
    struct real_world *w = calloc(1, sizeof(*w));
    snprintf(w->folder, sizeof(w->folder), "%s", folder);
    struct net_world world = {name, w, real_program, real_place, real_turn};
    int failed = net_suite_run(&world);
    for (int i = 0; i < w->program_count; i++) {
        net_nng_fini(&w->programs[i].net);
        loop_free(w->programs[i].loop);
    }
    free(w);
    return failed;
}

int main(void)
{
    char folder[] = "/tmp/muster-net-XXXXXX";
    if (!mkdtemp(folder)) {
        perror("mkdtemp");
        return 1;
    }
    int failed = run("nng tcp", "") + run("nng ipc", folder);
    char command[128];
    for (int i = 0; i < PROGRAMS_MAX; i++) {
        snprintf(command, sizeof(command), "%s/%d.sock", folder, i);
        unlink(command);
    }
    rmdir(folder);
    if (failed)
        printf("%d failed\n", failed);
    fflush(stdout);
    _exit(failed != 0); /* NNG's sockets are not closed, its threads not joined */
}
