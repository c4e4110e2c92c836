/* Scripted workers and the launcher that starts them. A process is a program of its own on its
 * node's machine: it speaks to the hub as libworker does (Hello, Join, Watch, Progress, LostPeers,
 * CommitCheckpoint), or knows nothing of us. Processes outlive agents; a lost machine ends them
 * all.
 *
 * The script comes in the job's command: [sim, aware=1, steps=50, step_ms=100, every=10, ...].
 */
#ifndef SIM_PROCESS_H
#define SIM_PROCESS_H

#include "agent/supervisor/launcher.h"
#include "common/rpc/client.h"
#include "tests/sim/world.h"

struct script {
    bool aware;
    int steps, step_ms, every; /* every: steps between checkpoints, 0 = none */
    int start_ms;              /* from exec to Hello */
    int crash_permille;        /* chance of a crash at each step */
    int crash_always_at;       /* a bug: exit 3 at this step, 0 = none */
    bool ignores_term;
    int pause_at;   /* rank 0 stands still for a while after this step, once; 0 = never */
    bool deaf_once; /* the first process of rank 0 hangs before it says Hello */
};

enum process_state { PROCESS_HELLO, PROCESS_JOINING, PROCESS_TRAINING, PROCESS_EXITED };

struct process {
    struct world *world;
    struct sim_node *node;
    struct worker_key key;
    int64_t pid;
    uint64_t start_generation;
    uint32_t rank, world_size;
    struct script script;
    struct worker_memory memory; /* what the agent keeps */
    bool told_started;
    enum process_state state;
    struct worker_exit exit;
    bool forgotten; /* its run directory is gone */
    bool trained;   /* has been in a whole gang: it has state */
    bool hung;      /* stands still, hears no SIGTERM */
    int stuck_ms;   /* how long SIGKILL does not end it either, 0 = it does at once */
    bool killed;    /* with stuck_ms: SIGKILL was sent */
    bool told_stuck;
    /* in the coordinator's eyes while it lived: it did too, or it was lost with its node */
    bool counted, given_up;
    /* the program; NULL once it has ended */
    struct program *program;
    struct rpc_client *hub;
    char token[AGENT_TOKEN_MAX + 1], hub_url[NET_URL_MAX], endpoint[64], folder[64];
    uint64_t generation, step;
    uint64_t asked; /* newest generation it asked to join */
    bool watching, joining, committing, ending;
    bool saving; /* told to stop: it takes no step any more, its last checkpoint is on its way */
    int end_code;
    uint64_t reported;
    int64_t stalled_since_ms, told_lost_ms;
    struct loop_timer timer;
};

struct sim_node { /* a machine with (now and then) an agent */
    struct world *world;
    char name[16], hub_url[64];
    int machine, slots;
    struct process *processes[SIM_PROCESSES_MAX]; /* all that ever ran here, in order of start */
    int processes_count;
    int64_t next_pid;
    struct launcher launcher;
    struct launcher_events events;
    bool open;
    struct program *agent_program;
    struct agent *agent;
    int64_t down_since_ms; /* its machine is down; 0 = up */
};

void sim_launcher_init(struct sim_node *node);
void process_signal(struct process *process, int signal); /* KILL at once, TERM if it listens */
void process_die(struct process *process, const struct worker_exit *exit);
void sim_node_lose_processes(struct sim_node *node); /* the machine went down */
bool process_lives(const struct process *process);

#endif
