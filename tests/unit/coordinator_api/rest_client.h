/* A real coordinator process on a free port and raw HTTP over TCP, for tests of REST: one daemon
 * and one request at a time.
 */
#ifndef COORDINATOR_API_REST_CLIENT_H
#define COORDINATOR_API_REST_CLIENT_H

#include <stddef.h>

enum { REST_ANSWER_MAX = 1 << 20 };

struct rest {
    char dir[64], token[128], agent_token[128]; /* the admin's, the agents' */
    int port;
    char answer[REST_ANSWER_MAX]; /* the last one, head and body */
};
extern struct rest rest;

void rest_init(void); /* a new folder and a coordinator on it */
void rest_fini(void);
void rest_start(void); /* the same folder again, after rest_stop */
void rest_stop(int signal);

struct http {
    const char *method, *path, *body;
    const char *headers; /* "Name: value\r\n..." */
    const char *token;   /* NULL = the admin's, "" = none */
};
int rest_request(struct http how); /* the status; -1 = no answer */
/* Sign in with a token: the headers of the session it opens. */
void rest_log_in(const char *token, char ret_headers[512]);
int rest_status(void); /* of rest.answer */

int rest_dial(void);
void rest_send(int fd, const void *data, size_t size);
/* Until the peer closes, `until` has come, or patience ends. */
void rest_receive(int fd, const char *until);
void rest_job_id(char ret[32]); /* that the last answer begins with */

#endif
