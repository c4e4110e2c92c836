/* The coordinator's OpenAPI document, for tools/python_api.py. */
#include <stdio.h>

#include "common/base/buf.h"
#include "coordinator/api_rest/openapi.h"

int main(void)
{
    struct buf out = {0};
    int rc = openapi_render("0", &out);
    if (!rc)
        printf("%.*s\n", (int)out.size, (const char *)out.data);
    buf_fini(&out);
    return rc != 0;
}
