#include "common/rpc/method.h"

#include <string.h>

#include "common/base/meant.h"
#include "common/base/str.h"

enum { METHODS_LISTED_MAX = 64 };

static int method_unknown(const ProtobufCServiceDescriptor *service, const char *method,
                          struct error *err)
{
    const char *names[METHODS_LISTED_MAX + 1] = {NULL};
    for (unsigned i = 0; i < service->n_methods && i < METHODS_LISTED_MAX; i++)
        names[i] = service->methods[i].name;
    error_set(err, E_NOT_FOUND, "%s has no method \"%s\"", service->short_name, method);
    (void)meant_hint(err, method, names);
    return E_NOT_FOUND;
}

int rpc_method_find(const ProtobufCServiceDescriptor *service, const char *method,
                    char ret_name[FRAME_METHOD_MAX + 1], const ProtobufCMethodDescriptor **ret,
                    struct error *err)
{
    for (unsigned i = 0; i < service->n_methods; i++) {
        if (strcmp(service->methods[i].name, method) != 0)
            continue;
        int rc = str_printf(ret_name, FRAME_METHOD_MAX + 1, "%s.%s", service->short_name, method);
        if (rc)
            return error_set(err, rc, "the name %s.%s is too long", service->short_name, method);
        *ret = &service->methods[i];
        return 0;
    }
    return method_unknown(service, method, err);
}
