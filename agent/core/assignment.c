#include "agent/core/assignment.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"

static const char *const no_command[] = {NULL};

struct assignment *assignment_new(void)
{
    struct assignment *a = calloc(1, sizeof(*a));
    if (!a)
        return NULL;
    arena_init(&a->arena, ASSIGNMENT_MAX_BYTES);
    a->references = 1;
    a->master_addr = a->token = a->resume_from = a->stop_reason = a->job_name = a->tenant =
        a->workdir = "";
    a->checkpoint_dir = a->checkpoint_every = "";
    a->secrets_error = "";
    a->command = no_command;
    return a;
}

struct assignment *assignment_hold(struct assignment *assignment)
{
    insist(assignment->references > 0);
    assignment->references++;
    return assignment;
}

void assignment_release(struct assignment *assignment)
{
    if (!assignment)
        return;
    insist(assignment->references > 0);
    if (--assignment->references > 0)
        return;
    for (int i = 0; i < assignment->secrets_count; i++)
        explicit_bzero((char *)(uintptr_t)assignment->secrets[i].value,
                       strlen(assignment->secrets[i].value));
    arena_fini(&assignment->arena);
    free(assignment);
}

const char *assignment_training(const struct assignment *assignment, const char *name)
{
    for (int i = 0; i < assignment->training_count; i++)
        if (strcmp(assignment->training[i].name, name) == 0)
            return assignment->training[i].value;
    return NULL;
}
