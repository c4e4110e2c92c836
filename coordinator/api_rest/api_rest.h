/* REST, live streams and the page over HTTP: DESIGN 5.3. Every answer is made by the same service
 * functions as RPC's and is the same message as JSON, so the two cannot differ. The table of routes
 * (routes.c) connects them. Only REST has health, Prometheus, OpenAPI, sessions and the page.
 *
 * Owned by the program; loop thread only. Free it before its coordinator.
 */
#ifndef API_REST_API_REST_H
#define API_REST_API_REST_H

#include "common/base/error.h"
#include "common/base/log.h"

struct api_rest;
struct coordinator;
struct env;
struct loop;

struct api_rest_options {
    const char *address;      /* "127.0.0.1:7480"; port 0 uses a free one */
    const char *tls;          /* file of the key to show; NULL: plain HTTP */
    const char *data_dir;     /* browser sessions are kept there; NULL = nowhere */
    const char *const *hosts; /* names it is known by besides its own; borrowed, ended by NULL */
    const struct log *log;
};

int api_rest_new(const struct api_rest_options *options, struct env *env, struct loop *loop,
                 struct coordinator *coordinator, struct api_rest **ret, struct error *err);
const char *api_rest_url(const struct api_rest *api); /* with the real port */
void api_rest_free(struct api_rest *api);             /* NULL is fine */

#endif
