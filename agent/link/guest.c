#include "agent/link/guest.h"

#include <stdlib.h>

#include "common/base/limits.h"
#include "common/base/str.h"

enum { NAME_MAX_BYTES = sizeof((struct worker_key *)0)->job + 24 };

static void name_of(const struct worker_key *key, char ret[NAME_MAX_BYTES])
{
    (void)str_printf(ret, NAME_MAX_BYTES, "%s/%llu", key->job, (unsigned long long)key->uid);
}

void guests_fini(struct guests *guests)
{
    strmap_free_values(&guests->all);
}

int guest_enter(struct guests *guests, const struct worker_key *key, struct guest **ret,
                struct error *err)
{
    char name[NAME_MAX_BYTES];
    name_of(key, name);
    struct guest *guest = strmap_get(&guests->all, name);
    if (!guest) {
        guest = calloc(1, sizeof(*guest));
        if (!guest || strmap_set(&guests->all, name, guest, NULL)) {
            free(guest);
            return error_set(err, E_RESOURCE_EXHAUSTED, "no memory for a worker's call");
        }
        guest->key = *key;
    }
    if (guest->calls >= MAX_WORKER_CALLS)
        return limit_refuse(LIMIT_WORKER_CALLS, err);
    guest->calls++;
    *ret = guest;
    return 0;
}

static void forget_idle(struct guests *guests, struct guest *guest)
{
    char name[NAME_MAX_BYTES];
    if (guest->calls > 0 || guest->forwards > 0)
        return;
    name_of(&guest->key, name);
    strmap_remove(&guests->all, name);
    free(guest);
}

void guest_leave(struct guests *guests, struct guest *guest)
{
    guest->calls--;
    forget_idle(guests, guest);
}

int guest_forward(struct guests *guests, struct guest *guest, struct error *err)
{
    int most = guests->forwards < GUESTS_FORWARDS_BUSY ? MAX_WORKER_FORWARDS : GUEST_FORWARDS_FEW;
    if (guest->forwards >= most)
        return limit_refuse(LIMIT_WORKER_FORWARDS, err);
    if (guests->forwards >= MAX_AGENT_FORWARDS)
        return limit_refuse(LIMIT_AGENT_FORWARDS, err);
    guest->forwards++;
    guests->forwards++;
    return 0;
}

void guest_forwarded(struct guests *guests, struct guest *guest)
{
    guest->forwards--;
    guests->forwards--;
    forget_idle(guests, guest);
}
