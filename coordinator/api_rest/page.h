/* The web page: every file of web/ and Debian's chart.js, embedded at build. Needs no token,
 * because it has no data. Pure except for the reply. */
#ifndef API_REST_PAGE_H
#define API_REST_PAGE_H

#include <stdbool.h>

#include "coordinator/api_rest/http.h"

/* Answers GET of "/" and of the files; false (and nothing answered) for any other path. */
bool page_reply(struct http_request *request);

#endif
