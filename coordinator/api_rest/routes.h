/* The one table of routes. Which path and method is which call, what its body is, what it streams.
 * Dispatch, the 404 and 405 answers and /openapi.json derive from it. Pure.
 */
#ifndef API_REST_ROUTES_H
#define API_REST_ROUTES_H

#include <stdbool.h>
#include <stddef.h>

#include <protobuf-c/protobuf-c.h>

enum { ROUTE_VALUE_MAX = 128, ROUTE_ALLOW_MAX = 64 };

enum route_kind {
    ROUTE_CALL,  /* a method of the Coordinator service */
    ROUTE_LOGIN, /* token -> session cookie */
    ROUTE_LOGOUT,
    ROUTE_HEALTH,
    ROUTE_READY,
    ROUTE_METRICS, /* Prometheus */
    ROUTE_OPENAPI,
};

enum route_body {
    ROUTE_NO_BODY,
    ROUTE_OPTIONAL_BODY, /* the method's request message */
    ROUTE_SPEC_BODY,     /* a JobSpec, widened as YAML is; or {"spec": JobSpec} */
};

enum route_stream { ROUTE_NO_STREAM, ROUTE_STREAM_JOB, ROUTE_STREAM_LOGS, ROUTE_STREAM_EVENTS };

struct route {
    const char *method;
    const char *path; /* at most one {name}: the request message's field it fills */
    const char *id;   /* in /openapi.json; generators name functions by it */
    enum route_kind kind;
    const char *call; /* of ROUTE_CALL */
    enum route_body body;
    enum route_stream stream; /* for clients that accept text/event-stream */
    struct {
        const char *field, *value;
    } constant;         /* put into the request message */
    const char *secret; /* a field that the address may not have: addresses are written down */
    bool open;          /* needs no token */
    int status;         /* of success; 0 = 200 */
    bool shared; /* the answer depends only on the address, the caller, and the stored or shown
                  * state of jobs and nodes: it is kept until something changes */
    const char *summary;
};

extern const struct route routes[]; /* ended by a NULL path */

struct route_match {
    const struct route *route; /* NULL: no such path, or not with this method */
    char field[32];            /* of the {name} in the path, "" if it has none */
    char value[ROUTE_VALUE_MAX];
    char allow[ROUTE_ALLOW_MAX]; /* methods the path has, if only the method was wrong */
};

void route_find(const char *method, const char *path, struct route_match *ret);

/* The nearest known path for a 404, or NULL. */
const char *route_nearest(const char *path);

const ProtobufCMethodDescriptor *route_call(const struct route *route);

#endif
