/* Addresses as people write them, and why one cannot be reached. */
#include <arpa/inet.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <criterion/criterion.h>

#include "common/env/net_reach.h"
#include "common/env/net_url.h"

enum { WAIT_MS = 20000 }; /* never waited for where an answer comes */

static void expect_split(const char *text, const char *host, const char *port)
{
    char found_host[NET_URL_MAX], found_port[NET_URL_MAX];
    bool fine = net_url_split(text, found_host, found_port);
    cr_expect_eq(fine, host != NULL, "%s", text);
    if (fine && host) {
        cr_expect_str_eq(found_host, host);
        cr_expect_str_eq(found_port, port);
    }
}

Test(net_url, host_and_port_come_apart)
{
    char longest[2 * NET_URL_MAX];
    expect_split("node-1:7440", "node-1", "7440");
    expect_split("[::1]:7440", "::1", "7440");
    expect_split(":0", "", "0");
    expect_split("::1:7440", NULL, NULL);
    expect_split("node-1", NULL, NULL);
    expect_split("node-1:", NULL, NULL);
    expect_split("node-1:http", NULL, NULL);
    memset(longest, 'a', sizeof(longest));
    snprintf(longest + sizeof(longest) - 4, 4, ":1");
    expect_split(longest, NULL, NULL);
}

Test(net_url, only_addresses_that_work_are_taken)
{
    struct error err = {0};
    cr_expect_eq(net_url_check("tcp://127.0.0.1:0", &err), 0);
    cr_expect_eq(net_url_check("ipc:///run/x", &err), 0);
    cr_expect_eq(net_url_check("tls+tcp://127.0.0.1:0", &err), E_INVALID_ARGUMENT);
    cr_expect_not_null(strstr(err.text, "encrypted always"), "%s", err.text);
    cr_expect_eq(net_url_check("127.0.0.1:7440", &err), E_INVALID_ARGUMENT);
    cr_expect_not_null(strstr(err.hint, "tcp://host:port"));
    err = (struct error){0};
    cr_expect_eq(net_url_check("tcp://127.0.0.1", &err), E_INVALID_ARGUMENT, "it has no port");
    cr_expect_not_null(strstr(err.hint, "tcp://host:port"));
}

struct server { /* greets one connection after the other */
    int fd;
    char url[64];
    const char *greeting;
    size_t size;
    pthread_t thread;
};

static void *serve(void *arg)
{
    const struct server *server = arg;
    int fd;
    while ((fd = accept(server->fd, NULL, NULL)) >= 0) {
        char words[64];
        (void)!write(fd, server->greeting, server->size);
        (void)shutdown(fd, SHUT_WR);
        while (read(fd, words, sizeof(words)) > 0)
            ;
        close(fd);
    }
    return NULL;
}

static void server_start(struct server *server, const char *greeting, size_t size)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t length = sizeof(address);
    *server = (struct server){.fd = socket(AF_INET, SOCK_STREAM, 0)};
    server->greeting = greeting;
    server->size = size;
    cr_assert_eq(bind(server->fd, (struct sockaddr *)&address, length), 0);
    cr_assert_eq(listen(server->fd, 8), 0);
    cr_assert_eq(getsockname(server->fd, (struct sockaddr *)&address, &length), 0);
    snprintf(server->url, sizeof(server->url), "tcp://127.0.0.1:%d", ntohs(address.sin_port));
    cr_assert_eq(pthread_create(&server->thread, NULL, serve, server), 0);
}

static void server_stop(struct server *server)
{
    shutdown(server->fd, SHUT_RDWR);
    pthread_join(server->thread, NULL);
    close(server->fd);
}

static void expect_said(int rc, const struct error *err, const char *part)
{
    cr_expect_eq(rc, E_UNAVAILABLE);
    cr_expect_not_null(strstr(err->text, part), "%s", err->text);
}

Test(net_reach, what_listens_is_reached_and_what_does_not_is_told_apart)
{
    struct server server;
    struct error err = {0};
    server_start(&server, "", 0);
    cr_expect_eq(net_reach(server.url, WAIT_MS, &err), 0, "%s", err.text);
    server_stop(&server);
    expect_said(net_reach(server.url, WAIT_MS, &err), &err, "the connection was refused");
    expect_said(net_reach("ipc:///no/such/socket", WAIT_MS, &err), &err, "no such socket");
    expect_said(net_reach("tcp://no.such.host.invalid:1", WAIT_MS, &err), &err, "is unknown");
    cr_expect_eq(net_reach("tcp://nowhere", WAIT_MS, &err), E_INVALID_ARGUMENT);
}

Test(net_reach, another_protocol_is_told_from_ours)
{
    static const char ours[] = {0x15, 3, 3, 0, 2, 2, 70}; /* an alert of TLS */
    static const char http[] = "HTTP/1.1 400 Bad Request\r\n\r\n", mail[] = "220 mail ESMTP\r\n";
    struct server server;
    struct error err = {0};
    server_start(&server, ours, sizeof(ours));
    cr_expect_eq(net_reach_protocol(server.url, WAIT_MS, &err), 0, "%s", err.text);
    server_stop(&server);
    server_start(&server, http, strlen(http));
    expect_said(net_reach_protocol(server.url, WAIT_MS, &err), &err, "speaks HTTP");
    server_stop(&server);
    server_start(&server, mail, strlen(mail));
    expect_said(net_reach_protocol(server.url, WAIT_MS, &err), &err, "not a coordinator");
    server_stop(&server);
}
