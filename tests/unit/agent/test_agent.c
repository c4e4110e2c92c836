/* The whole agent on the real env, with real workers, against a coordinator played by this test. */
#include <criterion/criterion.h>

#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/agent.h"
#include "agent/supervisor/launcher_shim.h"
#include "common/base/str.h"
#include "common/env/clock_os.h"
#include "common/env/proc.h"
#include "common/rpc/call.h"
#include "common/rpc/client.h"
#include "common/rpc/message.h"
#include "common/rpc/server.h"
#include "proto/worker.pb-c.h"

enum { PATIENCE_MS = 300000, WANTS_MAX = 4 };

struct want {
    uint64_t uid, generation;
    const char *script;
    bool formed, stop;
};

struct stage {
    char dir[64], url[96], hub[96], runs[96], work[96], tmp[96];
    struct env env;
    struct loop *loop;
    struct launcher_shim *shims;
    struct launcher launcher;
    struct inventory inventory;
    struct agent *agent;
    struct rpc_client *worker; /* plays libworker */
    bool ended;
    enum agent_end end;
    /* the coordinator */
    struct rpc_server *server;
    struct want wants[WANTS_MAX];
    int wants_count;
    uint64_t version, parked;
    bool unknown, fence, refuse; /* answer so */
    int registrations;
    Muster__RegisterNodeRequest *registered; /* newest, ours */
    Muster__NodeReport *report;              /* newest, ours */
    char log[65536];
    uint64_t log_next; /* number of the next line expected */
    double metric;
    char links[32]; /* of its first GPU, as a report told last */
    char commit_node[64];
};

static struct stage stage;

static void refuse(struct rpc_call *call, int code, const char *why)
{
    struct error err = {0};
    error_set(&err, code, "%s", why);
    rpc_call_fail(call, &err);
}

static bool speaks(struct stage *s, struct rpc_call *call)
{
    if (s->fence)
        refuse(call, E_ABORTED, "fenced");
    else if (s->unknown)
        refuse(call, E_NOT_FOUND, "unknown node");
    return !s->fence && !s->unknown;
}

static void on_register(void *arg, struct rpc_call *call)
{
    struct stage *s = arg;
    Muster__RegisterNodeAnswer answer = MUSTER__REGISTER_NODE_ANSWER__INIT;
    cr_expect_str_eq(rpc_call_token(call), "agent-token");
    s->unknown = false;
    if (s->refuse) {
        refuse(call, E_PERMISSION_DENIED, "another role");
        return;
    }
    if (!speaks(s, call))
        return;
    s->registrations++;
    rpc_message_free(s->registered);
    s->registered = (Muster__RegisterNodeRequest *)rpc_message_copy(rpc_call_request(call));
    answer.cluster = (char *)"test";
    answer.beat_ms = 200;
    answer.lease_ms = 600;
    rpc_call_answer(call, &answer.base);
}

static void answer_poll(struct stage *s, struct rpc_call *call)
{
    Muster__NodePollAnswer answer = MUSTER__NODE_POLL_ANSWER__INIT;
    Muster__Assignment all[WANTS_MAX], *list[WANTS_MAX];
    Muster__JobSpec specs[WANTS_MAX];
    char *commands[WANTS_MAX][3], tokens[WANTS_MAX][64];
    Muster__Membership memberships[WANTS_MAX];
    Muster__JobShared shared[WANTS_MAX], *shares[WANTS_MAX];
    Muster__Member member = MUSTER__MEMBER__INIT, *members[] = {&member};
    member.endpoint = (char *)"tcp://e";
    for (int i = 0; i < s->wants_count; i++) {
        const struct want *want = &s->wants[i];
        muster__assignment__init(&all[i]);
        muster__job_spec__init(&specs[i]);
        commands[i][0] = (char *)"sh";
        commands[i][1] = (char *)"-c";
        commands[i][2] = (char *)(uintptr_t)want->script;
        specs[i].command = commands[i];
        specs[i].n_command = 3;
        (void)str_printf(tokens[i], sizeof(tokens[i]), "tok-%d-%d", (int)want->uid,
                         (int)want->generation);
        all[i].job = (char *)"job";
        all[i].uid = want->uid;
        all[i].slot = (uint32_t)i;
        all[i].generation = want->generation;
        all[i].world = 1;
        all[i].stop = want->stop;
        all[i].grace_ms = 300;
        all[i].token = tokens[i];
        muster__job_shared__init(&shared[i]); /* one job: the newest membership counts */
        shared[i].job = all[i].job;
        shared[i].spec = &specs[i];
        all[i].secret.data = (uint8_t *)"01234567890123456789012345678901";
        all[i].secret.len = 32;
        if (want->formed) {
            muster__membership__init(&memberships[i]);
            memberships[i].generation = want->generation;
            memberships[i].members = members;
            memberships[i].n_members = 1;
            shared[i].membership = &memberships[i];
        }
        list[i] = &all[i];
        shares[i] = &shared[i];
    }
    answer.version = s->version;
    answer.assignments = list;
    answer.n_assignments = (size_t)s->wants_count;
    answer.shared = shares;
    answer.n_shared = (size_t)s->wants_count;
    rpc_call_answer(call, &answer.base);
}

static void on_poll(void *arg, struct rpc_call *call)
{
    struct stage *s = arg;
    const Muster__NodePollRequest *m = (const void *)rpc_call_request(call);
    if (!speaks(s, call))
        return;
    if (m->version != s->version)
        answer_poll(s, call);
    else
        s->parked = rpc_call_id(call);
}

static void keep_output(struct stage *s, const Muster__NodeReport *m)
{
    for (size_t i = 0; i < m->n_logs; i++) {
        const Muster__LogChunk *chunk = m->logs[i];
        if (chunk->n_lines == 0) { /* of a worker without a word, or whose lines went before */
            cr_expect(chunk->last);
            continue;
        }
        cr_expect_eq(chunk->offset, s->log_next);
        s->log_next = chunk->offset + chunk->n_lines;
        for (size_t j = 0; j < chunk->n_lines; j++)
            if (strlen(s->log) + strlen(chunk->lines[j]->text) + 2 < sizeof(s->log))
                strcat(strcat(s->log, chunk->lines[j]->text), "\n");
    }
    for (size_t i = 0; i < m->n_metrics; i++)
        s->metric = m->metrics[i]->value;
}

static void on_report(void *arg, struct rpc_call *call)
{
    struct stage *s = arg;
    const Muster__NodeReport *m = (const void *)rpc_call_request(call);
    Muster__NodeReportAnswer answer = MUSTER__NODE_REPORT_ANSWER__INIT;
    if (!speaks(s, call))
        return;
    cr_expect(!s->report || m->incarnation != s->report->incarnation ||
              m->sequence > s->report->sequence);
    keep_output(s, m);
    if (m->n_gpu_links)
        (void)str_copy(s->links, sizeof(s->links), m->gpu_links[0]->links);
    rpc_message_free(s->report);
    s->report = (Muster__NodeReport *)rpc_message_copy(rpc_call_request(call));
    answer.sequence = m->sequence;
    rpc_call_answer(call, &answer.base);
}

static void on_commit(void *arg, struct rpc_call *call)
{
    struct stage *s = arg;
    const Muster__CommitCheckpointRequest *m = (const void *)rpc_call_request(call);
    char *prune[] = {(char *)"/old"};
    Muster__CommitCheckpointAnswer answer = MUSTER__COMMIT_CHECKPOINT_ANSWER__INIT;
    (void)str_copy(s->commit_node, sizeof(s->commit_node), m->node);
    cr_expect_eq(m->incarnation, agent_incarnation(s->agent));
    answer.prune = prune;
    answer.n_prune = 1;
    rpc_call_answer(call, &answer.base);
}

static void on_end(void *arg, enum agent_end why)
{
    struct stage *s = arg;
    s->ended = true;
    s->end = why;
}

static void start_agent(struct stage *s)
{
    struct error err;
    const char *const argv[] = {SHIM_PROGRAM, NULL};
    const char *const environment[] = {"PATH=/usr/bin:/bin", NULL};
    struct launcher_shim_options shims = {
        .dir = s->runs, .work_dir = s->work, .tmp_dir = s->tmp, .shim_argv = argv};
    cr_assert_eq(launcher_shim_new(&shims, &s->env, s->loop, &s->shims, &err), 0);
    s->launcher = launcher_shim_face(s->shims);
    struct agent_options options = {
        .name = "n1",
        .coordinator = s->url,
        .token = "agent-token",
        .hub_url = s->hub,
        .address = "127.0.0.1",
        .version = "1",
        .port_first = 21000,
        .port_last = 21999,
        .inventory = s->inventory,
        .environment = environment,
        .on_end = on_end,
        .on_end_arg = s,
    };
    int rc = agent_new(&options, &s->env, s->loop, &s->launcher, &s->agent, &err);
    cr_assert_eq(rc, 0, "%s", err.text);
}

static void stop_agent(struct stage *s)
{
    agent_free(s->agent);
    launcher_shim_free(s->shims);
    s->agent = NULL;
}

static void begin(void)
{
    struct stage *s = &stage;
    struct error err;
    strcpy(s->dir, "/tmp/muster-agent-XXXXXX");
    cr_assert_not_null(mkdtemp(s->dir));
    (void)str_printf(s->url, sizeof(s->url), "ipc://%s/c.sock", s->dir);
    (void)str_printf(s->hub, sizeof(s->hub), "ipc://%s/hub.sock", s->dir);
    (void)str_printf(s->runs, sizeof(s->runs), "%s/runs", s->dir);
    (void)str_printf(s->work, sizeof(s->work), "%s/work", s->dir);
    (void)str_printf(s->tmp, sizeof(s->tmp), "%s/tmp", s->dir);
    cr_assert_eq(loop_new(clock_os(), &s->loop, &err), 0);
    cr_assert_eq(env_os_init(&s->env, s->loop, &err), 0);
    s->version = 1;
    s->inventory = (struct inventory){.slots = 2, .cpus = 2, .memory_bytes = 1 << 30};
    cr_assert_eq(rpc_server_new(&s->env, s->loop, s->url, 64, &s->server, &err), 0);
    const ProtobufCServiceDescriptor *nodes = &muster__nodes__descriptor;
    rpc_server_add(s->server, nodes, "RegisterNode", on_register, s, NULL);
    rpc_server_add(s->server, nodes, "Poll", on_poll, s, NULL);
    rpc_server_add(s->server, nodes, "Report", on_report, s, NULL);
    rpc_server_add(s->server, nodes, "CommitCheckpoint", on_commit, s, NULL);
    start_agent(s);
    cr_assert_eq(rpc_client_new(&s->env, s->loop, s->hub, "tok-1-1", &s->worker, &err), 0);
}

static void turn(struct stage *s)
{
    loop_turn(s->loop);
    usleep(1000);
}

#define UNTIL(condition)                                                                           \
    do {                                                                                           \
        for (int i_ = 0; i_ < PATIENCE_MS && !(condition); i_++)                                   \
            turn(&stage);                                                                          \
        cr_assert(condition);                                                                      \
    } while (0)

static void finish(void)
{
    struct stage *s = &stage;
    if (s->agent) {
        agent_stop_workers(s->agent);
        UNTIL(s->ended);
        stop_agent(s);
    }
    s->env.disk.remove_tree(s->env.disk.self, s->dir, NULL);
    _exit(0); /* NNG 1.5.2 cannot be taken down while it is in use */
}

TestSuite(agent, .init = begin);

static void desire(const struct want *wants, int count)
{
    memcpy(stage.wants, wants, sizeof(*wants) * (size_t)count);
    stage.wants_count = count;
    stage.version++;
    struct rpc_call *call = stage.parked ? rpc_server_find(stage.server, stage.parked) : NULL;
    stage.parked = 0;
    if (call)
        answer_poll(&stage, call);
}
#define DESIRE(...)                                                                                \
    do {                                                                                           \
        const struct want wants_[] = {__VA_ARGS__};                                                \
        desire(wants_, sizeof(wants_) / sizeof(wants_[0]));                                        \
    } while (0)

static const Muster__WorkerStatus *status(uint64_t uid)
{
    static const Muster__WorkerStatus none = MUSTER__WORKER_STATUS__INIT;
    for (size_t i = 0; stage.report && i < stage.report->n_workers; i++)
        if (stage.report->workers[i]->uid == uid)
            return stage.report->workers[i];
    return &none;
}

struct called { /* one call of the worker */
    bool done;
    struct error err;
    ProtobufCMessage *answer;
};

static void on_called(void *arg, const struct error *err, const ProtobufCMessage *answer)
{
    struct called *called = arg;
    called->done = true;
    called->err = *err;
    called->answer = answer ? rpc_message_copy(answer) : NULL;
}

static void call(struct called *called, const char *method, const ProtobufCMessage *request)
{
    struct rpc_options options = {.timeout_ms = PATIENCE_MS, .retry = true};
    memset(called, 0, sizeof(*called));
    cr_assert_eq(rpc_client_call(stage.worker, &muster__worker_hub__descriptor, method, request,
                                 &options, on_called, called, NULL),
                 0);
}

static struct called hello(uint64_t uid)
{
    struct called called;
    Muster__WorkerHelloRequest request = MUSTER__WORKER_HELLO_REQUEST__INIT;
    request.job = (char *)"job";
    request.uid = uid;
    call(&called, "Hello", &request.base);
    for (int i = 0; i < PATIENCE_MS && !called.done; i++)
        turn(&stage);
    return called;
}

Test(agent, runs_what_is_desired_ships_its_output_and_forgets_it)
{
    UNTIL(stage.registrations == 1);
    cr_expect_str_eq(stage.registered->name, "n1");
    cr_expect_eq(stage.registered->slots, 2);
    DESIRE({.uid = 1, .generation = 1, .script = "echo hello $RANK; echo $MUSTER_JOB; exit 3"});
    UNTIL(status(1)->state == MUSTER__WORKER__STATE__exited);
    cr_expect_eq(status(1)->exit->code, 3);
    cr_expect_str_eq(status(1)->exit->last_output, "hello 0\njob\n");
    UNTIL(strcmp(stage.log, "hello 0\njob\n") == 0);
    char path[128];
    (void)str_printf(path, sizeof(path), "%s/job.1", stage.runs);
    cr_expect_eq(access(path, F_OK), 0);
    DESIRE({.uid = 2, .generation = 2, .script = "sleep 1000"});
    UNTIL(access(path, F_OK) != 0);
    UNTIL(status(2)->pid > 0);
    finish();
}

Test(agent, much_output_arrives_whole_and_in_order)
{
    DESIRE({.uid = 1,
            .generation = 1,
            .script = "i=0; while [ $i -lt 3000 ]; do echo "
                      "line-$i-0123456789012345678901234567890123456789012345678901234567890123456"
                      "789012345678901234567890123456789012345678901234567890123456789; "
                      "i=$((i+1)); done"});
    UNTIL(stage.log_next == 3000);
    finish();
}

Test(agent, a_worker_says_hello_joins_and_progresses)
{
    struct called join, watch, progress, commit;
    DESIRE({.uid = 1, .generation = 1, .script = "sleep 1000"});
    UNTIL(status(1)->pid > 0);
    struct called hi = hello(1);
    cr_assert_eq(hi.err.code, 0, "%s", hi.err.text);
    cr_expect_eq(((Muster__WorkerHelloAnswer *)hi.answer)->generation, 1);
    UNTIL(status(1)->aware);
    Muster__WorkerJoinRequest request = MUSTER__WORKER_JOIN_REQUEST__INIT;
    request.job = (char *)"job", request.uid = 1, request.generation = 1;
    request.endpoint = (char *)"tcp://e";
    call(&join, "Join", &request.base);
    UNTIL(status(1)->joining == 1 && strcmp(status(1)->endpoint, "tcp://e") == 0);
    cr_expect_not(join.done);
    DESIRE({.uid = 1, .generation = 1, .script = "sleep 1000", .formed = true});
    UNTIL(join.done);
    cr_assert_eq(join.err.code, 0, "%s", join.err.text);
    const Muster__WorkerJoinAnswer *answer = (void *)join.answer;
    cr_expect(answer->ready);
    cr_expect_eq(answer->membership->n_members, 1);
    cr_expect_eq(answer->secret.len, 32);
    cr_expect_str_eq(answer->token, "tok-1-1");
    UNTIL(status(1)->state == MUSTER__WORKER__STATE__joined && status(1)->generation == 1);

    Muster__WorkerWatchRequest watching = MUSTER__WORKER_WATCH_REQUEST__INIT;
    watching.job = (char *)"job", watching.uid = 1, watching.generation = 1;
    call(&watch, "Watch", &watching.base);
    Muster__MetricSample sample = MUSTER__METRIC_SAMPLE__INIT, *samples[] = {&sample};
    Muster__WorkerProgressRequest step = MUSTER__WORKER_PROGRESS_REQUEST__INIT;
    sample.name = (char *)"loss", sample.value = 2.5;
    step.job = (char *)"job", step.uid = 1, step.generation = 1, step.step = 17;
    step.metrics = samples, step.n_metrics = 1;
    Muster__Wait alone = MUSTER__WAIT__INIT; /* it waits, and cannot say for whom */
    alone.waited_ms = 1;
    step.wait = &alone;
    call(&progress, "Progress", &step.base);
    UNTIL(progress.done && status(1)->step == 17 && stage.metric == 2.5);

    Muster__CommitCheckpointRequest checkpoint = MUSTER__COMMIT_CHECKPOINT_REQUEST__INIT;
    checkpoint.job = (char *)"job", checkpoint.uid = 1;
    call(&commit, "CommitCheckpoint", &checkpoint.base);
    UNTIL(commit.done);
    cr_expect_eq(commit.err.code, 0, "%s", commit.err.text);
    cr_expect_str_eq(stage.commit_node, "n1");
    cr_expect_eq(((Muster__CommitCheckpointAnswer *)commit.answer)->n_prune, 1);

    cr_expect_not(watch.done);
    DESIRE({.uid = 1, .generation = 2, .script = "sleep 1000"});
    UNTIL(watch.done);
    cr_expect_eq(((Muster__WorkerWatchAnswer *)watch.answer)->generation, 2);
    call(&commit, "CommitCheckpoint", &checkpoint.base);
    UNTIL(commit.done);
    cr_expect_eq(commit.err.code, E_ABORTED);
    finish();
}

Test(agent, strangers_are_refused)
{
    DESIRE({.uid = 1, .generation = 1, .script = "sleep 1000"},
           {.uid = 2, .generation = 1, .script = "sleep 1000"});
    UNTIL(status(1)->pid > 0 && status(2)->pid > 0);
    cr_expect_eq(hello(2).err.code, E_UNAUTHENTICATED);
    cr_expect_eq(hello(3).err.code, E_NOT_FOUND);
    cr_expect_eq(hello(1).err.code, 0);
    finish();
}

Test(agent, registers_again_when_the_coordinator_has_forgotten)
{
    DESIRE({.uid = 1, .generation = 1, .script = "sleep 1000"});
    UNTIL(status(1)->pid > 0);
    stage.unknown = true;
    UNTIL(stage.registrations == 2);
    cr_expect_eq(stage.registered->n_workers, 1);
    cr_expect_eq(stage.registered->workers[0]->uid, 1);
    stage.version++;
    UNTIL(stage.parked);
    cr_expect_eq(status(1)->state, MUSTER__WORKER__STATE__starting);
    finish();
}

/* An NVLink of the second GPU fails after the inventory was read. */
Test(agent, tells_of_links_that_change_and_registers_again_with_them)
{
    char path[96];
    UNTIL(stage.registrations == 1);
    stop_agent(&stage);
    (void)str_printf(path, sizeof(path), "%s/readings", stage.dir);
    setenv("FAKE_NVML_READINGS", path, 1);
    cr_assert_not_null(dlopen(FAKE_NVML, RTLD_NOW), "%s", dlerror());
    cr_assert_eq(inventory_read(&stage.inventory, NULL), 0);
    FILE *file = fopen(path, "w");
    cr_assert_not_null(file);
    fputs("1 nvlinks 3\n", file);
    fclose(file);
    start_agent(&stage);
    UNTIL(stage.registrations == 2);
    cr_expect_str_eq(stage.registered->gpus[0]->links, "X NV4");
    UNTIL(strcmp(stage.links, "X NV3") == 0);
    stage.unknown = true;
    UNTIL(stage.registrations == 3);
    cr_expect_str_eq(stage.registered->gpus[0]->links, "X NV3");
    cr_expect(stage.registered->gpus[0]->nvlinks == 4 && stage.registered->gpus[1]->nvlinks == 3);
    finish();
}

Test(agent, a_new_agent_adopts_the_workers_of_the_one_before)
{
    DESIRE({.uid = 1, .generation = 1, .script = "sleep 1000"});
    UNTIL(status(1)->pid > 0);
    int64_t pid = status(1)->pid;
    cr_expect_eq(hello(1).err.code, 0);
    uint64_t incarnation = agent_incarnation(stage.agent);
    stop_agent(&stage);
    cr_expect(proc_alive((pid_t)pid, 0));
    (void)str_printf(stage.hub, sizeof(stage.hub), "ipc://%s/hub2.sock", stage.dir);
    start_agent(&stage);
    UNTIL(stage.registrations == 2);
    cr_expect_neq(agent_incarnation(stage.agent), incarnation);
    cr_assert_eq(stage.registered->n_workers, 1);
    cr_expect_eq(stage.registered->workers[0]->pid, pid);
    cr_expect(stage.registered->workers[0]->aware);
    finish();
}

Test(agent, a_fenced_agent_ends_and_its_workers_do_not)
{
    DESIRE({.uid = 1, .generation = 1, .script = "sleep 1000"});
    UNTIL(status(1)->pid > 0);
    int64_t pid = status(1)->pid;
    stage.fence = true;
    UNTIL(stage.ended);
    cr_expect_eq(stage.end, AGENT_END_FENCED);
    cr_expect(proc_alive((pid_t)pid, 0));
    stop_agent(&stage);
    stage.fence = stage.ended = false;
    start_agent(&stage);
    finish();
}

Test(agent, a_token_that_was_never_good_ends_it)
{
    UNTIL(stage.registrations == 1);
    stop_agent(&stage);
    stage.refuse = true;
    (void)str_printf(stage.hub, sizeof(stage.hub), "ipc://%s/hub2.sock", stage.dir);
    start_agent(&stage);
    UNTIL(stage.ended);
    cr_expect_eq(stage.end, AGENT_END_REFUSED);
    stop_agent(&stage);
    finish();
}

Test(agent, a_token_that_was_good_once_may_be_so_again)
{
    UNTIL(stage.registrations == 1);
    stage.refuse = stage.unknown = true; /* registers again */
    for (int i = 0; i < 500; i++)
        turn(&stage);
    cr_expect_not(stage.ended);
    cr_expect_eq(stage.registrations, 1);
    stage.refuse = false;
    UNTIL(stage.registrations == 2);
    finish();
}

Test(agent, a_stop_is_obeyed_with_grace)
{
    DESIRE({.uid = 1, .generation = 1, .script = "trap '' TERM; while :; do sleep 0.05; done"});
    UNTIL(status(1)->pid > 0);
    DESIRE({.uid = 1, .generation = 1, .script = "", .stop = true});
    UNTIL(status(1)->state == MUSTER__WORKER__STATE__stopping);
    UNTIL(status(1)->state == MUSTER__WORKER__STATE__exited);
    cr_expect_eq(status(1)->exit->signal, SIGKILL);
    finish();
}
