/* What each caller holds open, and whose read is next. A caller is a token, a node, or the
 * connection of an agent without a key; its calls count for itself, for its tenant and for all
 * callers of its kind, each with a limit of common/base/limits.h. The kinds have places of their
 * own, so that readers cannot take those of agents and administrators.
 *
 *     caller ──above──► tenant (members and viewers) ──above──► readers
 *     caller ──above──────────────────────────────────────────► admins, agents
 *     anybody without a token ────────────────────────────────► strangers
 *
 * Reads that are ready wait with their caller. A turn serves one of each caller in rotation, agents
 * and others alternately, until its time is used (BUDGET_TURN_MS); the rest is for the next turn.
 * At most one plan is served a turn, and plans use at most half of the time.
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

enum { BUDGET_TURN_MS = 10 }; /* of reads in one turn of the loop */

enum budget_kind { BUDGET_STRANGERS, BUDGET_READERS, BUDGET_ADMINS, BUDGET_AGENTS, BUDGET_KINDS };

struct budget { /* of one caller, one tenant or one kind */
    struct budget *above;
    enum limit limit;
    int open, plans;
    uint64_t key;     /* of a caller, in budgets->callers; 0 = it is no caller */
    bool agent;       /* its turns are those of agents */
    bool stays;       /* kept while nothing is open, too: of a node */
    struct list turn; /* in budgets->turns or ->now while calls are ready */
    struct list ready;
};

struct budgets {
    struct map callers;    /* struct budget */
    struct strmap tenants; /* struct budget, kept for life */
    struct budget kinds[BUDGET_KINDS];
    int plans;
    uint64_t refused[LIMIT_COUNT];
    struct list turns[2], now[2]; /* agents', others' */
    int last;                     /* which of the two was served last */
    uint64_t turn;
    int64_t plan_again_ms; /* no plan is served before */
    bool planned;          /* one was served in this turn */
};

struct budget_ask {
    const struct store_token *caller; /* NULL = anybody */
    unsigned role;
    uint64_t peer;
    bool node;             /* the caller is one node's own, by its key; else agents share tokens */
    struct budget **known; /* where the budget of a node is remembered; NULL = nowhere */
    bool plan, forwarded;
};

struct budget_ready { /* embedded in a call: its place among its caller's ready ones */
    struct list link;
    uint64_t turn; /* in which it became ready */
    bool plan;
};

void budgets_init(struct budgets *budgets);
void budgets_fini(struct budgets *budgets); /* every call was closed */

/* Who shares the loop's time: a tenant, or one token of others. Never 0. */
uint64_t budget_whose(const struct store_token *caller);

/* May it open one more call? E_RESOURCE_EXHAUSTED naming the limit; counted. */
int budget_check(struct budgets *budgets, const struct budget_ask *ask, struct error *err);

/* As budget_check, and the call counts until budget_close. NULL with err filled. */
struct budget *budget_open(struct budgets *budgets, const struct budget_ask *ask,
                           struct error *err);
void budget_close(struct budgets *budgets, struct budget *caller, bool plan);

/* Refuse for a limit that is not about open calls. */
int budget_refuse(struct budgets *budgets, enum limit limit, struct error *err);

void budget_ready(struct budgets *budgets, struct budget *caller, struct budget_ready *ready);

/* A turn of reads: begin, then next until NULL or until the time is used, then end. What becomes
 * ready in between is for the next turn. */
void budgets_begin(struct budgets *budgets);
struct budget_ready *budgets_next(struct budgets *budgets, int64_t now_ms);
void budgets_planned(struct budgets *budgets, int64_t from_ms, int64_t to_ms); /* a plan ran */
/* When to begin again, INT64_MAX = nothing is ready. */
int64_t budgets_end(struct budgets *budgets, int64_t now_ms);

#endif
