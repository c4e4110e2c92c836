#include "coordinator/api_rest/http_framing.h"

#include <stdbool.h>
#include <string.h>
#include <strings.h>

#include "coordinator/api_rest/http_limits.h"

struct head {
    int fields, lengths, codings, hosts;
    bool chunked, plain; /* of the coding; every name is one token */
    bool control;        /* a value has a control character */
};

/* RFC 9110, 5.6.2 */
static bool is_token(const char *name)
{
    static const char others[] = "!#$%&'*+-.^_`|~";
    for (const char *c = name; *c; c++) {
        bool letter = (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z');
        if (!letter && !(*c >= '0' && *c <= '9') && !strchr(others, *c))
            return false;
    }
    return *name;
}

/* NUL arrives as SOH (http_wire.h). RFC 9110, 5.5 */
static bool has_control(const char *text)
{
    for (const char *c = text; c && *c; c++)
        if (((unsigned char)*c < ' ' && *c != '\t') || *c == 0x7f)
            return true;
    return false;
}

static enum MHD_Result check_field(void *arg, enum MHD_ValueKind kind, const char *name,
                                   const char *value)
{
    struct head *head = arg;
    (void)kind;
    head->fields++;
    head->plain = head->plain && is_token(name);
    head->control = head->control || has_control(value);
    if (strcasecmp(name, MHD_HTTP_HEADER_CONTENT_LENGTH) == 0)
        head->lengths++;
    else if (strcasecmp(name, MHD_HTTP_HEADER_HOST) == 0)
        head->hosts++;
    else if (strcasecmp(name, MHD_HTTP_HEADER_TRANSFER_ENCODING) == 0) {
        head->codings++;
        head->chunked = value && strcasecmp(value, "chunked") == 0;
    }
    return MHD_YES;
}

#define FAULT(text) "{\"error\":{\"code\":\"INVALID_ARGUMENT\",\"message\":\"" text "\"}}\n"

const char *http_framing_fault(struct MHD_Connection *connection, const struct http_line *line,
                               int *ret_status)
{
    struct head head = {.plain = true};
    MHD_get_connection_values(connection, MHD_HEADER_KIND, check_field, &head);
    *ret_status = MHD_HTTP_BAD_REQUEST;
    if (head.fields > HTTP_FIELDS_MAX) {
        *ret_status = MHD_HTTP_REQUEST_HEADER_FIELDS_TOO_LARGE;
        return FAULT("a request has at most 64 headers");
    }
    if (line->uri && strstr(line->uri, "%00")) /* it would end the rest of the path */
        return FAULT("the address has a NUL character (%00)");
    if (!is_token(line->method) || has_control(line->uri) || head.control)
        return FAULT("the head of the request has a control character");
    if (!head.plain)
        return FAULT("the name of a header is no token");
    if (head.lengths > 1 || head.codings > 1 || (head.lengths && head.codings))
        return FAULT("the length of the body is given twice");
    if (head.codings && !head.chunked)
        return FAULT("the only Transfer-Encoding allowed is chunked");
    if (head.hosts > 1 || (head.hosts == 0 && strcmp(line->version, MHD_HTTP_VERSION_1_1) == 0))
        return FAULT("a request has one Host");
    return NULL;
}
