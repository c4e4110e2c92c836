/* The HTTP server by itself: clients that do not read, and clients that ask too much. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/turns.h"
#include "common/env/clock_os.h"
#include "common/loop/loop.h"
#include "coordinator/api_rest/http.h"
#include "tests/unit/coordinator_api/rest_client.h"

enum { BODY_BYTES = 16 << 20, BODIES = 4, CLIENTS = 7 };

struct place {
    http_handler handler;
    struct loop *loop;
    struct http *http;
    char *body;
    pthread_t thread;
    pthread_mutex_t hold; /* the handler waits for it */
    char handled[2 * CLIENTS + 2];
};

static void answer(void *arg, struct http_request *request)
{
    struct place *place = arg;
    struct http_answer large = {
        .status = 200, .type = "text/plain", .body = place->body, .size = BODY_BYTES};
    http_reply(request, &large);
}

static void *run(void *arg)
{
    loop_run(((struct place *)arg)->loop);
    return NULL;
}

/* A slow one takes more than a turn's time for others, a quick one none. */
static void answer_in_turn(void *arg, struct http_request *request)
{
    struct place *place = arg;
    struct http_answer none = {.status = 200};
    pthread_mutex_lock(&place->hold);
    pthread_mutex_unlock(&place->hold);
    if (http_path(request)[1] == 's')
        usleep((TURNS_QUANTUM_MS + 1) * 1000);
    place->handled[strlen(place->handled)] = http_path(request)[1];
    http_reply(request, &none);
}

static uint64_t owner_of(void *arg, const struct http_request *request)
{
    (void)arg;
    return (uint64_t)http_path(request)[1];
}

static void open_place(struct place *place)
{
    place->body = malloc(BODY_BYTES);
    memset(place->body, 'x', BODY_BYTES);
    cr_assert_eq(loop_new(clock_os(), &place->loop, NULL), 0);
    struct http_options options = {.address = "127.0.0.1:0",
                                   .handler = place->handler,
                                   .arg = place,
                                   .owner_of = owner_of,
                                   .unread_max_bytes = (size_t)BODIES * BODY_BYTES};
    cr_assert_eq(http_new(place->loop, &options, &place->http, NULL), 0);
    rest.port = (int)strtol(strrchr(http_url(place->http), ':') + 1, NULL, 10);
    cr_assert_eq(pthread_create(&place->thread, NULL, run, place), 0);
}

static void close_place(struct place *place)
{
    loop_stop(place->loop);
    pthread_join(place->thread, NULL);
    http_free(place->http);
    loop_free(place->loop);
    free(place->body);
}

static int ask_for(const char *text)
{
    int fd = rest_dial();
    rest_send(fd, text, strlen(text));
    return fd;
}

static int ask(void)
{
    return ask_for("GET /x HTTP/1.1\r\nHost: x\r\n\r\n");
}

Test(http, clients_that_do_not_read_hold_no_more_than_so_much)
{
    struct place place = {.handler = answer};
    int fds[CLIENTS];
    open_place(&place);
    for (int i = 0; i < CLIENTS; i++) {
        fds[i] = ask();
        rest_receive(fds[i], "\r\n\r\n");
        cr_assert_eq(rest_status(), i < BODIES ? 200 : 503, "client %d: %.100s", i, rest.answer);
        cr_assert_eq(strstr(rest.answer, "Retry-After: 1") != NULL, i >= BODIES);
    }
    for (int i = 0; i < CLIENTS; i++)
        close(fds[i]);
    int status = 503;
    while (status == 503) { /* until it has seen that they are gone */
        int fd = ask();
        rest_receive(fd, "\r\n\r\n");
        status = rest_status();
        close(fd);
    }
    cr_assert_eq(status, 200);
    close_place(&place);
}

Test(http, a_quick_request_does_not_wait_for_all_slow_ones_of_another)
{
    struct place place = {.handler = answer_in_turn, .hold = PTHREAD_MUTEX_INITIALIZER};
    int fds[2 * CLIENTS + 1];
    open_place(&place);
    pthread_mutex_lock(&place.hold);
    for (int i = 0; i < 2 * CLIENTS; i++)
        fds[i] = ask_for("GET /s HTTP/1.1\r\nHost: x\r\n\r\n");
    fds[2 * CLIENTS] = ask_for("GET /q HTTP/1.1\r\nHost: x\r\n\r\n");
    usleep(200000); /* so that all of them wait; the order holds without it */
    pthread_mutex_unlock(&place.hold);
    for (int i = 0; i <= 2 * CLIENTS; i++) {
        rest_receive(fds[i], "\r\n\r\n");
        close(fds[i]);
    }
    close_place(&place);
    const char *quick = strchr(place.handled, 'q');
    cr_assert_not_null(quick);
    cr_assert_lt(quick - place.handled, CLIENTS, "handled as %s", place.handled);
}
