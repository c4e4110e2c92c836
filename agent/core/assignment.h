/* The desired state of one worker: proto Assignment in the agent's types, converted once by
 * agent/link. Immutable once filled, shared by reference count on the loop thread. All texts and
 * arrays are in its own arena. */
#ifndef AGENT_ASSIGNMENT_H
#define AGENT_ASSIGNMENT_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/core/launch.h"
#include "common/base/arena.h"

enum { ASSIGNMENT_MAX_BYTES = 8 << 20, ASSIGNMENT_SECRET_BYTES = 32 };

struct named_value { /* a name and its value, both of any length */
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
    int64_t stacks_wall_ms; /* of the last request for its stacks; 0 = none */
    int stop_signal;        /* SIGTERM unless the job names another */
    int early_signal;       /* 0 = none */
    int64_t signal_wall_ms; /* when it was due; 0 = not yet */
    uint64_t generation;
    uint32_t rank, world, local_rank, local_world, node_rank, node_count;
    uint32_t restarts, restarts_max;
    uint32_t slot, slots;  /* first slot and number of slots */
    double cpus;           /* 0 = not specified */
    uint64_t memory_bytes; /* 0 = no limit */
    const char *master_addr;
    uint16_t master_port;
    const char *token;
    uint8_t secret[ASSIGNMENT_SECRET_BYTES];
    int secret_bytes; /* 0 if absent */
    const char *resume_from;
    uint64_t resume_step;    /* of resume_from */
    const char *stop_reason; /* with stop: why; "" = the coordinator sent none */
    const char *job_name, *tenant;
    const char *workdir;
    const char *const *command; /* NULL-terminated */
    const char *checkpoint_dir, *checkpoint_every;
    uint32_t checkpoint_keep;
    const struct named_value *env; /* from the spec, in byte order of the names */
    int env_count;
    const struct launch_secret *secrets; /* in byte order of the names */
    int secrets_count;
    const char *secrets_error; /* why they are unavailable, so it must not start; "" = available */
    bool secrets_later;        /* with secrets_error: an administrator may solve it */
    const struct named_value *training; /* only set ones: {"strategy", "fsdp"}, {"mesh.dp", "2"} */
    int training_count;
    const struct membership_member *members; /* all `members_count` members, by rank */
    int members_count;                       /* 0 until all have joined `generation` */
};

/* Zeroed, one reference, every text "" and `command` empty. NULL without memory. */
struct assignment *assignment_new(void);
struct assignment *assignment_hold(struct assignment *assignment);
void assignment_release(struct assignment *assignment); /* NULL is allowed */

/* The value of a training setting, NULL if not set. */
const char *assignment_training(const struct assignment *assignment, const char *name);

#endif
