/* The open calls of each caller, and the order of reads. A caller is a token, a node, or the
 * connection of an agent without a key. Its calls count for itself, for its tenant and for all
 * callers of its kind, each with a limit of common/base/limits.h. Each kind has its own places, so
 * readers cannot use up those of agents and administrators.
 *
 *       caller ──above──► tenant (members and viewers) ──above──► readers
 *       caller ──above──────────────────────────────────────────► admins, agents
 *       callers without a token ────────────────────────────────► strangers
 *
 * Ready reads wait with their caller. A turn serves one read per caller in rotation, alternating
 * between agents and others, until its time is used (BUDGET_TURN_MS). The rest waits for the next
 * turn. A turn serves at most one plan, and plans use at most half of the time.
 *
 * Owned by the service; loop thread only.
 */
#ifndef API_RPC_BUDGET_H
#define API_RPC_BUDGET_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/limits.h"
#include "common/base/list.h"
#include "common/base/map.h"
#include "coordinator/store/store.h"

enum { BUDGET_TURN_MS = 10 }; /* for reads in one turn of the loop */

enum budget_kind { BUDGET_STRANGERS, BUDGET_READERS, BUDGET_ADMINS, BUDGET_AGENTS, BUDGET_KINDS };

struct budget { /* of one caller, one tenant or one kind */
    struct budget *above;
    enum limit limit;
    int open, plans;
    uint64_t key;     /* of a caller, in budgets->callers; 0 = not a caller */
    bool agent;       /* it shares turns with the agents */
    bool stays;       /* a node's: kept even with no open call, until budget_forget_node */
    struct list turn; /* in budgets->turns or ->now while calls are ready */
    struct list ready;
};

struct budgets {
    struct map callers;    /* struct budget */
    struct strmap tenants; /* struct budget, never removed */
    struct budget kinds[BUDGET_KINDS];
    int plans;
    uint64_t refused[LIMIT_COUNT];
    struct list turns[2], now[2]; /* agents', others' */
    int last;                     /* which of the two was served last */
    uint64_t turn;
    int64_t plan_again_ms; /* the next plan is served no earlier */
    bool planned;          /* one was served in this turn */
};

struct budget_ask {
    const struct store_token *caller; /* NULL = a caller without a token */
    unsigned role;
    uint64_t peer;
    bool node;             /* the caller is one node, by its key; other agents share tokens */
    struct budget **known; /* where a node's budget is cached; NULL = nowhere */
    bool plan, forwarded;
};

struct budget_ready { /* embedded in a call: its place among its caller's ready calls */
    struct list link;
    uint64_t turn; /* in which it became ready */
    bool plan;
};

void budgets_init(struct budgets *budgets);
void budgets_fini(struct budgets *budgets); /* after every call was closed */

/* The key for sharing the loop's time: a tenant, or one token of others. Never 0. */
uint64_t budget_owner_key(const struct store_token *caller);

/* 0 if the caller may open one more call. E_RESOURCE_EXHAUSTED with the limit's name; counted. */
int budget_check(struct budgets *budgets, const struct budget_ask *ask, struct error *err);

/* Like budget_check, and the call counts until budget_close. NULL with err set. */
struct budget *budget_open(struct budgets *budgets, const struct budget_ask *ask,
                           struct error *err);
void budget_close(struct budgets *budgets, struct budget *caller, bool plan);

/* The entry of a node's key is about to be freed; none of its calls is open. */
void budget_forget_node(struct budgets *budgets, const struct store_token *node);

/* Refuse because of a limit that is not of open calls. */
int budget_refuse(struct budgets *budgets, enum limit limit, struct error *err);

void budget_ready(struct budgets *budgets, struct budget *caller, struct budget_ready *ready);

/* A turn of reads: begin, then next until NULL or until the time is used, then end. A call that
 * becomes ready meanwhile waits for the next turn. */
void budgets_begin(struct budgets *budgets);
struct budget_ready *budgets_next(struct budgets *budgets, int64_t now_ms);
void budgets_planned(struct budgets *budgets, int64_t from_ms, int64_t to_ms); /* a plan ran */
/* When to begin again, INT64_MAX = nothing is ready. */
int64_t budgets_end(struct budgets *budgets, int64_t now_ms);

#endif
