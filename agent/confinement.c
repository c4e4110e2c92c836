#include "agent/confinement.h"

#include <string.h>

#include "common/base/str.h"

enum { LACK_BYTES = CGROUP_WHY_BYTES + 48 };

/* One sentence more, as far as there is room. */
static void add_lack(struct inventory *inventory, const char *what)
{
    size_t used = strlen(inventory->unenforced);
    if (what[0])
        (void)str_printf(inventory->unenforced + used, sizeof(inventory->unenforced) - used, "%s%s",
                         used ? "; " : "", what);
}

static void add_cgroups(const struct confinement *have, struct inventory *inventory)
{
    char memory[LACK_BYTES];
    (void)str_printf(memory, sizeof(memory), "resources.memory is not enforced: %s",
                     have->home.why);
    if (have->home.kind == CGROUP_NONE)
        add_lack(inventory, memory);
    if (!have->home.pids[0])
        add_lack(inventory, "processes are not counted: no pids controller");
}

/* One layer is enough: a worker that is not root gets around neither. */
static void add_gpus(const struct confinement *have, struct inventory *inventory)
{
    char gpus[LACK_BYTES];
    bool enforced = inventory->gpu_major && (have->home.devices[0] || have->namespaces.devices);
    (void)str_printf(gpus, sizeof(gpus), "a job can open GPUs of others: %s",
                     inventory->gpu_major ? have->home.devices_why : "NVML has no minor numbers");
    if (inventory->gpus_count > 1 && !enforced)
        add_lack(inventory, gpus);
}

int confinement_find(const struct confinement_wish *wish, struct inventory *inventory,
                     struct confinement *ret, struct error *err)
{
    struct confinement have = {0};
    cgroup_home_find(wish->cgroup, &have.home);
    if (wish->users->change && strcmp(wish->namespaces, "off") == 0)
        (void)str_copy(have.namespaces.why, sizeof(have.namespaces.why),
                       "not private: /tmp, /dev/shm, System V shared memory, the list of processes "
                       "(--namespaces off)");
    else if (wish->users->change)
        namespaces_find(wish->dir, &have.namespaces);
    add_lack(inventory, wish->users->lacks);
    add_lack(inventory, have.namespaces.why);
    add_gpus(&have, inventory);
    add_cgroups(&have, inventory);
    *ret = have;
    if (inventory_label_value(inventory, "cgroup"))
        return 0; /* an administrator's word */
    return inventory_label(inventory, "cgroup", cgroup_kind_name(have.home.kind), err);
}
