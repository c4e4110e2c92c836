/* What one worker should be: proto Assignment in the agent's own words, converted once by
 * agent/link. Immutable after it was filled, shared by reference count on the loop thread; all
 * texts and arrays live in its own arena.
 */
#ifndef AGENT_ASSIGNMENT_H
#define AGENT_ASSIGNMENT_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/core/launch.h"
#include "common/base/arena.h"

enum { ASSIGNMENT_MAX_BYTES = 8 << 20, ASSIGNMENT_SECRET_BYTES = 32 };

struct named_value { /* a name and its value, both without limits of their own */
    const char *name;
    const char *value;
};

struct membership_member { /* by rank */
    uint32_t rank;
    const char *endpoint;
    uint32_t host;
    const char *node;
};

struct assignment {
    int references;
    struct arena arena;
    struct worker_key key;
    bool stop;
    bool reform; /* leave the old generation now */
    uint32_t grace_ms, leave_ms;
    uint64_t generation;
    uint32_t rank, world, local_rank, local_world, node_rank, node_count;
    uint32_t restarts, restarts_max;
    uint32_t slot, slots;  /* first slot and how many */
    double cpus;           /* 0 = not said */
    uint64_t memory_bytes; /* 0 = not limited */
    const char *master_addr;
    uint16_t master_port;
    const char *token;
    uint8_t secret[ASSIGNMENT_SECRET_BYTES];
    int secret_bytes; /* 0 if none was given */
    const char *resume_from;
    const char *job_name, *tenant;
    const char *workdir;
    const char *const *command; /* NULL-terminated */
    const char *checkpoint_dir, *checkpoint_every;
    uint32_t checkpoint_keep;
    const struct named_value *env; /* of the spec, in byte order of the names */
    int env_count;
    const struct launch_secret *secrets; /* in byte order of the names */
    int secrets_count;
    const char *secrets_error; /* why they cannot be given: it must not start; "" = they can */
    bool secrets_later;        /* with it: somebody may mend it */
    const struct named_value
        *training; /* only what is set: {"strategy", "fsdp"}, {"mesh.dp", "2"} */
    int training_count;
    const struct membership_member *members; /* all `members_count` of them by rank */
    int members_count;                       /* 0 until all have joined `generation` */
};

/* Zeroed, one reference, every text "" and `command` empty. NULL without memory. */
struct assignment *assignment_new(void);
struct assignment *assignment_hold(struct assignment *assignment);
void assignment_release(struct assignment *assignment); /* NULL is fine */

/* The value of a training setting, NULL if not set. */
const char *assignment_training(const struct assignment *assignment, const char *name);

#endif
