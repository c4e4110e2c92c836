/* The listener against clients that are no NNG: bytes as a stranger, a slow network or a program
 * that hangs sends them. What NNG's sockets see of it is tests/conformance/net. */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/env/clock_os.h"
#include "common/env/net_listener.h"
#include "common/env/net_listener_state.h"
#include "common/env/net_url.h"
#include "common/env/net_sp.h"
#include "common/env/tls_key.h"
#include "common/loop/loop.h"

enum { SEEN_MAX = 128 };

static const uint8_t greeting[] = {0, 'S', 'P', 0, 0, 0x30, 0, 0};

static struct {
    struct loop *loop;
    struct sp_listener *listener;
    uint64_t requests[SEEN_MAX];
    char texts[SEEN_MAX][16];
    size_t sizes[SEEN_MAX];
    int seen, gone;
    bool echo, closes;
    bool classifies; /* "7 slow" is of owner 7; a slow one takes longer than one may at once */
    int port;
} w;

static void on_request(void *arg, uint64_t request, uint64_t peer, const void *bytes, size_t size)
{
    (void)arg;
    w.requests[w.seen % SEEN_MAX] = request;
    w.sizes[w.seen % SEEN_MAX] = size;
    snprintf(w.texts[w.seen++ % SEEN_MAX], 16, "%.*s", (int)size, (const char *)bytes);
    const char *text = bytes;
    if (w.classifies)
        sp_listener_classify(w.listener, peer, NET_CALLER, (uint64_t)(text[0] - '0'));
    if (w.classifies && size > 2 && text[2] == 's')
        usleep((PEER_SLICE_MS + 1) * 1000);
    if (w.echo)
        sp_listener_answer(w.listener, request, bytes, size);
    if (w.closes)
        sp_listener_close(w.listener);
}

static void on_gone(void *arg, uint64_t peer)
{
    (void)arg, (void)peer;
    w.gone++;
}

static const struct net_address *at(const char *url)
{
    static struct net_address address;
    cr_assert_eq(net_address_parse(url, &address, NULL), 0);
    return &address;
}

static void listen_at(const char *url, int max_in_flight)
{
    struct error err = {0};
    struct net_service service = {max_in_flight, on_request, on_gone, NULL};
    cr_assert_eq(loop_new(clock_os(), &w.loop, &err), 0);
    cr_assert_eq(sp_listener_new(w.loop, at(url), &service, &w.listener, &err), 0, "%s", err.text);
    const char *colon = strrchr(sp_listener_url(w.listener), ':');
    w.port = colon ? (int)strtol(colon + 1, NULL, 10) : 0;
}

static void strike(void)
{
    sp_listener_free(w.listener);
    loop_free(w.loop);
}

static int dial(void)
{
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)w.port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    cr_assert_geq(fd, 0);
    cr_assert_eq(connect(fd, (struct sockaddr *)&to, sizeof(to)), 0);
    return fd;
}

static void turns(int count)
{
    for (int i = 0; i < count; i++) {
        loop_turn(w.loop);
        usleep(1000);
    }
}

/* Criterion ends what hangs. */
#define await(condition)                                                                           \
    while (!(condition))                                                                           \
    turns(1)

static void say(int fd, const void *bytes, size_t size)
{
    cr_assert_eq(send(fd, bytes, size, MSG_NOSIGNAL), (ssize_t)size);
}

static size_t compose(const char *text, uint8_t ret[64])
{
    size_t size = strlen(text), head = sp_head(4 + size, false, ret);
    memcpy(ret + head, (uint8_t[]){0x80, 0, 0, 5}, 4);
    memcpy(ret + head + 4, text, size);
    return head + 4 + size;
}

static void ask(int fd, const char *text)
{
    uint8_t bytes[64];
    say(fd, bytes, compose(text, bytes));
}

static bool hung_up(int fd)
{
    struct pollfd wait = {.fd = fd, .events = POLLIN};
    uint8_t byte;
    while (poll(&wait, 1, 0) > 0)
        if (recv(fd, &byte, 1, MSG_DONTWAIT) <= 0)
            return true;
    return false;
}

TestSuite(net_listener, .fini = strike);

Test(net_listener, bytes_come_one_at_a_time)
{
    uint8_t bytes[64];
    listen_at("tcp://127.0.0.1:0", 8);
    w.echo = true;
    int fd = dial();
    for (size_t i = 0; i < sizeof(greeting); i++, turns(1))
        say(fd, greeting + i, 1);
    size_t size = compose("slow", bytes);
    for (size_t i = 0; i < size; i++, turns(1))
        say(fd, bytes + i, 1);
    await(w.seen == 1);
    cr_assert_str_eq(w.texts[0], "slow");
    uint8_t answer[64];
    cr_assert_eq(recv(fd, answer, sizeof(answer), 0), (ssize_t)(8 + size));
    cr_assert_eq(memcmp(answer, sp_greeting_rep, 8), 0);
    cr_assert_eq(memcmp(answer + 8, bytes, size), 0);
}

Test(net_listener, many_messages_come_at_once)
{
    uint8_t bytes[8 + 40 * 64];
    size_t size = sizeof(greeting);
    listen_at("tcp://127.0.0.1:0", SEEN_MAX);
    memcpy(bytes, greeting, size);
    for (int i = 0; i < 40; i++) {
        char text[8];
        snprintf(text, sizeof(text), "%d", i);
        size += compose(text, bytes + size);
    }
    int fd = dial();
    say(fd, bytes, size - 3);
    await(w.seen == 39);
    say(fd, bytes + size - 3, 3);
    await(w.seen == 40);
    for (int i = 0; i < 40; i++)
        cr_assert_eq((int)strtol(w.texts[i], NULL, 10), i);
}

static int where(const char *text)
{
    for (int i = 0; i < w.seen; i++)
        if (strcmp(w.texts[i], text) == 0)
            return i;
    return -1;
}

Test(net_listener, others_have_their_turn_between_slow_messages)
{
    listen_at("tcp://127.0.0.1:0", SEEN_MAX);
    w.classifies = true;
    int busy = dial(), other = dial();
    say(busy, greeting, sizeof(greeting));
    say(other, greeting, sizeof(greeting));
    for (int i = 0; i < 30; i++)
        ask(busy, "1 slow");
    ask(other, "2 quick");
    await(w.seen == 31);
    cr_assert_lt(where("2 quick"), 10, "it was served after %d slow ones", where("2 quick"));
}

Test(net_listener, an_owner_of_many_connections_has_no_more_time_than_one_of_one)
{
    enum { MANY = 20 };
    int many[MANY];
    listen_at("tcp://127.0.0.1:0", SEEN_MAX);
    w.classifies = true;
    int other = dial();
    say(other, greeting, sizeof(greeting));
    ask(other, "2 quick");
    for (int i = 0; i < MANY; i++) {
        many[i] = dial();
        say(many[i], greeting, sizeof(greeting));
        ask(many[i], "1 quick");
    }
    await(w.seen == 1 + MANY); /* from here on it is known whose they are */
    for (int i = 0; i < MANY; i++) {
        ask(many[i], "1 slow");
        ask(many[i], "1 slow");
    }
    ask(other, "2 last");
    await(w.seen == 1 + MANY + 2 * MANY + 1);
    int before = where("2 last") - 1 - MANY;
    cr_assert_lt(before, MANY / 2, "it was served after %d of the others", before);
}

Test(net_listener, what_came_before_an_end_is_served_in_several_turns_too)
{
    listen_at("tcp://127.0.0.1:0", SEEN_MAX);
    w.classifies = true;
    int fd = dial();
    say(fd, greeting, sizeof(greeting));
    for (int i = 0; i < 12; i++)
        ask(fd, "1 slow");
    close(fd);
    await(w.gone == 1);
    cr_assert_eq(w.seen, 12);
}

Test(net_listener, who_speaks_something_else_is_hung_up_on)
{
    listen_at("tcp://127.0.0.1:0", 8);
    int web = dial(), rep = dial(), scanner = dial(), good = dial();
    say(web, "GET / HTTP/1.1\r\n\r\n", 18);
    say(rep, sp_greeting_rep, SP_GREETING_BYTES);
    close(scanner);
    say(good, greeting, sizeof(greeting));
    ask(good, "still here");
    await(hung_up(web));
    await(hung_up(rep));
    await(w.seen == 1);
    cr_assert_eq(w.gone, 0); /* they never were anybody */
}

Test(net_listener, a_message_that_can_never_be_whole_ends_its_connection)
{
    static const uint8_t huge[] = {0x7f, 0, 0, 0, 0, 0, 0, 0};
    listen_at("tcp://127.0.0.1:0", 8);
    int fd = dial();
    say(fd, greeting, sizeof(greeting));
    ask(fd, "before");
    await(w.seen == 1);
    say(fd, huge, sizeof(huge));
    await(hung_up(fd));
    await(w.gone == 1);
    sp_listener_answer(w.listener, w.requests[0], "nobody", 6);
}

Test(net_listener, who_does_not_read_is_not_read_from)
{
    enum { EACH = 1 << 20, ASKED = 60 };
    static char large[EACH];
    listen_at("tcp://127.0.0.1:0", 16);
    int fd = dial();
    say(fd, greeting, sizeof(greeting));
    for (int i = 0; i < ASKED; i++)
        ask(fd, "give");
    int answered = 0;
    for (int i = 0; i < 200; i++, turns(1))
        while (answered < w.seen)
            sp_listener_answer(w.listener, w.requests[answered++ % SEEN_MAX], large, EACH);
    cr_assert_lt(w.seen, ASKED);
    /* Now it does, and has all. */
    size_t expected = SP_GREETING_BYTES + (size_t)ASKED * (8 + 4 + EACH), got = 0;
    static char into[1 << 20];
    while (got < expected) { /* Criterion ends what hangs */
        ssize_t more = recv(fd, into, sizeof(into), MSG_DONTWAIT);
        got += more > 0 ? (size_t)more : 0;
        loop_turn(w.loop);
        while (answered < w.seen)
            sp_listener_answer(w.listener, w.requests[answered++ % SEEN_MAX], large, EACH);
    }
    cr_assert_eq(got, expected);
    cr_assert_eq(w.seen, ASKED);
}

/* The program's one place is taken by `first`, and `second` has greeted. */
static void fill_the_program(int *first, int *second)
{
    listen_at("tcp://127.0.0.1:0", 1);
    *first = dial();
    *second = dial();
    say(*first, greeting, sizeof(greeting));
    ask(*first, "poll");
    await(w.seen == 1);
    say(*second, greeting, sizeof(greeting));
}

Test(net_listener, the_end_of_one_that_waits_behind_a_full_program_is_told)
{
    int first, second;
    fill_the_program(&first, &second);
    turns(5);
    ask(second, "waits");
    turns(20);
    cr_assert_eq(w.seen, 1);
    close(second);
    await(w.gone == 1);
    ask(first, "next");
    turns(5);
    sp_listener_answer(w.listener, w.requests[0], "news", 4);
    await(w.seen == 2);
    cr_assert_str_eq(w.texts[1], "next");
}

Test(net_listener, an_end_that_came_with_the_last_bytes_is_told)
{
    listen_at("tcp://127.0.0.1:0", 8);
    int whole = dial(), half = dial();
    uint8_t bytes[64];
    size_t size = compose("never whole", bytes);
    say(whole, greeting, sizeof(greeting));
    ask(whole, "last words");
    close(whole);
    say(half, greeting, sizeof(greeting));
    say(half, bytes, size - 3);
    close(half);
    await(w.seen == 1);
    await(w.gone == 2);
}

Test(net_listener, an_end_is_told_of_one_that_a_full_program_never_asked)
{
    int first, second;
    fill_the_program(&first, &second);
    ask(second, "waits");
    close(second);
    await(w.gone == 1);
    cr_assert_eq(w.seen, 1);
}

Test(net_listener, who_does_not_go_on_is_hung_up_on)
{
    static const struct net_timeouts short_one = {50, 50, 50, 10};
    static char large[NET_MESSAGE_MAX_BYTES];
    uint8_t bytes[64];
    int little = 4096;
    listen_at("tcp://127.0.0.1:0", 1);
    sp_listener_set_timeouts(w.listener, &short_one);
    int silent = dial(), half = dial(), deaf = dial(), quiet = dial();
    say(silent, greeting, 3);
    say(quiet, greeting, sizeof(greeting));
    say(half, greeting, sizeof(greeting));
    size_t size = compose("never whole", bytes);
    say(half, bytes, size - 3);
    say(deaf, greeting, sizeof(greeting));
    cr_assert_eq(setsockopt(deaf, SOL_SOCKET, SO_RCVBUF, &little, sizeof(little)), 0);
    ask(deaf, "much");
    await(w.seen == 1);
    sp_listener_answer(w.listener, w.requests[0], large, sizeof(large));
    await(hung_up(silent));
    await(w.gone == 2);
    cr_assert(hung_up(half) && !hung_up(quiet));
}

Test(net_listener, who_waits_behind_a_full_program_is_not_blamed_for_it)
{
    static const struct net_timeouts short_one = {50, 50, 50, 10};
    listen_at("tcp://127.0.0.1:0", 1);
    sp_listener_set_timeouts(w.listener, &short_one);
    int fd = dial();
    say(fd, greeting, sizeof(greeting));
    ask(fd, "poll");
    ask(fd, "waits");
    turns(200);
    cr_assert_eq(w.gone, 0);
    sp_listener_answer(w.listener, w.requests[0], "news", 4);
    await(w.seen == 2);
}

Test(net_listener, messages_that_are_never_whole_take_bounded_memory)
{
    enum { CLIENTS = 40, EACH = NET_MESSAGE_MAX_BYTES - 64, BOUND = 256 << 20 };
    static char zeros[1 << 16];
    int fds[CLIENTS];
    uint8_t head[SP_HEAD_MAX_BYTES];
    size_t sent = 0, head_bytes = sp_head(NET_MESSAGE_MAX_BYTES, false, head);
    listen_at("tcp://127.0.0.1:0", 8);
    for (int i = 0; i < CLIENTS; i++) {
        fds[i] = dial();
        fcntl(fds[i], F_SETFL, O_NONBLOCK);
        say(fds[i], greeting, sizeof(greeting));
        say(fds[i], head, head_bytes);
        for (size_t at = 0; at < EACH && w.gone == 0;) {
            size_t next = EACH - at < sizeof(zeros) ? EACH - at : sizeof(zeros);
            ssize_t more = send(fds[i], zeros, next, MSG_NOSIGNAL);
            at += more > 0 ? (size_t)more : 0;
            sent += more > 0 ? (size_t)more : 0;
            loop_turn(w.loop);
        }
    }
    cr_assert_gt(w.gone, 0);
    cr_assert_lt(sent, BOUND + EACH);
    w.echo = true;
    int good = dial();
    say(good, greeting, sizeof(greeting));
    ask(good, "small ones pass");
    await(w.seen == 1);
}

Test(net_listener, it_may_be_closed_by_what_it_calls)
{
    listen_at("tcp://127.0.0.1:0", 8);
    w.closes = true;
    int fd = dial();
    say(fd, greeting, sizeof(greeting));
    ask(fd, "one");
    ask(fd, "two");
    await(w.seen == 1);
    turns(20);
    cr_assert_eq(w.seen, 1);
    cr_assert(hung_up(fd));
    cr_assert_eq(w.gone, 0);
}

Test(net_listener, without_descriptors_it_waits_for_some)
{
    struct rlimit limit;
    listen_at("tcp://127.0.0.1:0", 8);
    w.echo = true;
    int fd = dial();
    say(fd, greeting, sizeof(greeting));
    ask(fd, "patient");
    cr_assert_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
    rlim_t before = limit.rlim_cur;
    limit.rlim_cur = 3;
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
    turns(50);
    cr_assert_eq(w.seen, 0);
    limit.rlim_cur = before;
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
    await(w.seen == 1);
}

/* Closing those that wait for their handshake for others that wait as long lets few through. */
Test(net_listener, as_many_may_wait_for_their_handshake_as_agents_return_at_once)
{
    enum { WAITING = 10000, STRANGERS = 8 };
    static int waiting[WAITING];
    char folder[] = "/tmp/muster-listener-XXXXXX", cluster[64], server[64], url[128];
    struct rlimit limit;
    cr_assert(mkdtemp(folder));
    snprintf(cluster, sizeof(cluster), "%s/cluster.pem", folder);
    snprintf(server, sizeof(server), "%s/server.pem", folder);
    cr_assert_eq(tls_make_cluster_key(cluster, NULL, NULL), 0);
    cr_assert_eq(tls_make_server_key(server, cluster, NULL, NULL), 0);
    cr_assert_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = limit.rlim_max;
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
    snprintf(url, sizeof(url), "tls+tcp://127.0.0.1:0?key=%s", server);
    listen_at(url, 8);
    int count = limit.rlim_max / 5 * 2 < WAITING ? (int)(limit.rlim_max / 5 * 2) : WAITING;
    for (int i = 0; i < count; i++) {
        waiting[i] = dial();
        if (i % 32 == 0)
            loop_turn(w.loop);
    }
    for (int i = 0; i < STRANGERS; i++) { /* each thread has had its share of the others then */
        int stranger = dial();
        say(stranger, "no TLS at all", 13);
        await(hung_up(stranger));
    }
    for (int i = 0; i < count; i++) {
        cr_assert_not(hung_up(waiting[i]), "%d of %d", i, count);
        close(waiting[i]);
    }
    unlink(cluster);
    unlink(server);
    rmdir(folder);
}

static void count_turn(void *arg)
{
    (*(int *)arg)++;
}

Test(net_listener, behind_many_that_say_nothing_one_is_accepted_in_a_few_turns)
{
    enum { SILENT = 400, FEW = 6 };
    int fds[SILENT], count = 0;
    listen_at("tcp://127.0.0.1:0", 8);
    loop_on_turn_end(w.loop, count_turn, &count);
    for (int i = 0; i < SILENT; i++)
        fds[i] = dial();
    int fd = dial();
    struct pollfd answer = {.fd = fd, .events = POLLIN};
    say(fd, greeting, sizeof(greeting));
    await(poll(&answer, 1, 0) > 0);
    cr_assert_leq(count, FEW);
    close(fd);
    for (int i = 0; i < SILENT; i++)
        close(fds[i]);
}

Test(net_listener, a_socket_left_over_is_replaced_and_one_in_use_is_not)
{
    char folder[] = "/tmp/muster-listener-XXXXXX", url[64];
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct stat is;
    cr_assert(mkdtemp(folder));
    snprintf(url, sizeof(url), "ipc://%s/s", folder);
    snprintf(address.sun_path, sizeof(address.sun_path), "%s/s", folder);
    int dead = socket(AF_UNIX, SOCK_STREAM, 0);
    cr_assert_eq(bind(dead, (struct sockaddr *)&address, sizeof(address)), 0);
    close(dead);
    listen_at(url, 8);
    cr_assert_eq(stat(address.sun_path, &is), 0);
    cr_assert_eq(is.st_mode & 0777, 0600);
    struct sp_listener *second;
    struct error err = {0};
    struct net_service service = {8, on_request, on_gone, NULL};
    cr_assert_eq(sp_listener_new(w.loop, at(url), &service, &second, &err), E_ALREADY_EXISTS, "%s",
                 err.text);
    sp_listener_close(w.listener);
    cr_assert_neq(stat(address.sun_path, &is), 0);
    rmdir(folder);
}

Test(net_listener, a_file_that_is_no_socket_is_not_replaced)
{
    char path[] = "/tmp/muster-listener-XXXXXX", url[64];
    struct stat is;
    struct sp_listener *second;
    struct error err = {0};
    struct net_service service = {8, on_request, on_gone, NULL};
    int file = mkstemp(path);
    cr_assert_geq(file, 0);
    close(file);
    snprintf(url, sizeof(url), "ipc://%s", path);
    listen_at("tcp://127.0.0.1:0", 8);
    cr_assert_neq(sp_listener_new(w.loop, at(url), &service, &second, &err), 0);
    cr_assert_eq(stat(path, &is), 0);
    cr_assert(S_ISREG(is.st_mode));
    unlink(path);
}

Test(net_listener, addresses_without_host_and_port_are_refused)
{
    static const char *const wrong[] = {
        "tcp://127.0.0.1",      "tcp://127.0.0.1:", "tcp://::1:70",
        "tcp://127.0.0.1:http", "ipc://",           "tcp://no such host:1"};
    struct sp_listener *listener;
    struct net_service service = {8, on_request, on_gone, NULL};
    listen_at("tcp://*:0", 8);
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        struct error err = {0};
        cr_assert_eq(sp_listener_new(w.loop, at(wrong[i]), &service, &listener, &err),
                     E_INVALID_ARGUMENT, "%s", wrong[i]);
        cr_assert(err.text[0]);
    }
}
