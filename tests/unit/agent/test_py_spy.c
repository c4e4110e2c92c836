/* Stacks of workers that offer none: real processes, and a script that plays py-spy. */
#include <criterion/criterion.h>

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/supervisor/py_spy.h"
#include "common/base/str.h"
#include "common/env/proc_activity.h"
#include "tests/unit/agent/terminal_rig.h"

static struct rig rig;
static struct py_spy *spy;

static struct {
    struct buf text;
    bool any;
    int count;
} found;

static void on_found(void *arg, const struct worker_key *key, const char *text, size_t size)
{
    cr_expect(arg == &rig && key->uid == 1);
    buf_clear(&found.text);
    cr_assert_eq(buf_append(&found.text, text, size), 0);
    found.any = true;
    found.count++;
}

static void open_spy(int64_t patience_ms)
{
    struct error err = {0};
    struct py_spy_options options = {.loop = rig.loop,
                                     .launcher = &rig.launcher,
                                     .node = "n1",
                                     .patience_ms = patience_ms,
                                     .found = on_found,
                                     .arg = &rig};
    cr_assert_eq(py_spy_new(&options, &spy, &err), 0, "%s", err.text);
}

static void begin(void)
{
    terminal_rig_begin(&rig);
    open_spy(RIG_PATIENCE_MS);
}

static void finish(void)
{
    py_spy_free(spy);
    buf_fini(&found.text);
    terminal_rig_finish(&rig);
}

TestSuite(py_spy, .init = begin, .fini = finish);

/* A worker whose process is named python3, with this script as ./py-spy, which its PATH has first
 * ("" = there is none). */
static struct rig_worker *python_with(const char *path, const char *played)
{
    struct error err = {0};
    char variable[64];
    struct buf script = {0};
    (void)str_printf(variable, sizeof(variable), "PATH=%s", path);
    const char *const envp[] = {variable, NULL};
    (void)buf_str(&script, "PATH=/usr/bin:/bin; ln -s /bin/sleep python3; ");
    if (played[0])
        (void)buf_printf(&script, "echo '#!/bin/sh\n%s' >py-spy; chmod +x py-spy; ", played);
    (void)buf_str(&script, "exec ./python3 1000");
    const char *const argv[] = {"/bin/sh", "-c", buf_cstr(&script), NULL};
    struct launch launch = {.key = {.job = "job", .uid = 1},
                            .generation = 1,
                            .argv = argv,
                            .envp = envp,
                            .workdir = ""};
    cr_assert_eq(rig_launch(&rig, &launch, &err), 0, "%s", err.text);
    struct rig_worker *worker = rig_worker(&rig, 1);
    cr_assert(rig_until(&rig, &worker->started));
    struct proc_activity is = {.name = ""};
    for (int i = 0; i < RIG_PATIENCE_MS && strcmp(is.name, "python3") != 0; i += 2) {
        rig_turn(&rig, 2);
        (void)proc_activity_read((pid_t)worker->pid, &is);
    }
    cr_assert_str_eq(is.name, "python3");
    buf_fini(&script);
    return worker;
}

static const char *look(const struct rig_worker *worker)
{
    found.any = false;
    py_spy_look(spy, &worker->key, worker->pid);
    cr_assert(rig_until(&rig, &found.any));
    return buf_cstr(&found.text);
}

static const char *look_with(const char *played)
{
    return look(python_with(".:/usr/bin:/bin", played));
}

static long number_in(const char *text, const char *name)
{
    const char *at = strstr(text, name);
    cr_assert(at, "no %s in %s", name, text);
    return atol(at + strlen(name));
}

/* \033 and U+009B begin commands of a terminal. */
Test(py_spy, its_text_follows_what_the_process_does)
{
    char expected[512];
    struct rig_worker *worker = python_with(
        ".:/usr/bin:/bin", "echo \"Process $4: python --token=abc\"; echo Python v3; echo; "
                           "echo Python v3; echo \"$@\"; printf \"\\033[2J\\302\\233x\\303\\244\"");
    const char *text = look(worker);
    int pid = (int)worker->pid;
    (void)str_printf(expected, sizeof(expected),
                     "py-spy, as the program offers no stacks itself:\nprocess %d:\nPython v3\n"
                     "dump --nonblocking --pid %d\n?[2J?x\303\244\n",
                     pid, pid);
    const char *rest = strchr(text, '\n');
    cr_assert(rest);
    cr_expect_str_eq(rest + 1, expected);
    (void)str_printf(expected, sizeof(expected), "process %d (python3): ", pid);
    cr_expect(str_starts(text, expected), "%s", text);
}

Test(py_spy, one_that_hangs_is_ended_and_what_it_wrote_is_shown)
{
    const char *text = "";
    struct rig_worker *worker = python_with(".:/usr/bin:/bin", "echo \"spy=$$\"; exec sleep 1000");
    py_spy_free(spy);
    open_spy(1000);
    while (!strstr(text, "spy=")) /* the second may be over before it is there */
        text = look(worker);
    cr_expect(str_ends(text, "py-spy did not end within 1 s, and was ended\n"), "%s", text);
    cr_expect(wait_gone(&rig, (pid_t)number_in(text, "spy=")));
}

Test(py_spy, one_that_never_stops_writing_is_cut)
{
    const char *text = look_with("echo \"spy=$$\"; exec seq 1000000000");
    cr_expect(str_ends(text, "py-spy writes more than 64 KiB: the rest is left out\n"));
    cr_expect(found.text.size > PY_SPY_BYTES && found.text.size < PY_SPY_BYTES + 512, "%zu",
              found.text.size);
    cr_expect(wait_gone(&rig, (pid_t)number_in(text, "spy=")));
}

Test(py_spy, errors_without_end_are_not_kept)
{
    const char *text = look_with("seq 20000 >&2; exit 1");
    cr_expect(str_ends(text, "py-spy reads no stacks of it\npy-spy saw no stacks: 1\n"), "%s",
              text);
}

/* A stack that changes while it is read. */
Test(py_spy, it_tries_again)
{
    const char *text = look_with("test -e tried && echo seen && exit; >tried; exit 1");
    cr_expect(str_ends(text, ":\nseen\n"), "%s", text);
}

Test(py_spy, a_kernel_that_refuses_is_explained)
{
    const char *text = look_with("echo \"Permission Denied: Try running again\" >&2; exit 1");
    cr_expect(strstr(text, "py-spy may not look at these processes: "), "%s", text);
    cr_expect(strstr(text, " of node n1 "), "%s", text);
}

Test(py_spy, it_is_missing)
{
    const char *text = look(python_with("/nowhere", ""));
    cr_expect(strstr(text, "(python3): "), "%s", text);
    cr_expect(strstr(text, "py-spy is not installed for it on node n1: `pip install py-spy`"), "%s",
              text);
}

Test(py_spy, it_is_found_beside_the_program_that_runs)
{
    const char *text = look(python_with("/usr/bin:/bin", "echo beside"));
    if (access("/usr/bin/py-spy", F_OK) == 0)
        cr_skip_test("py-spy is installed on this machine, and PATH comes first");
    cr_expect(str_ends(text, ":\nbeside\n"), "%s", text);
}

Test(py_spy, other_programs_are_not_spied_on)
{
    rig_sh(&rig, 1, "echo ready=1; sleep 1000; exit");
    rig_number(&rig, 1, "ready=");
    cr_assert(rig_until(&rig, &rig_worker(&rig, 1)->started));
    const char *text = look(rig_worker(&rig, 1));
    cr_expect(strstr(text, "(sh): "), "%s", text);
    cr_expect(str_ends(text, "none of these processes is known to be Python\n"), "%s", text);
}

Test(py_spy, a_worker_that_has_ended_is_told)
{
    rig_sh(&rig, 1, "exit 0");
    cr_assert(rig_until(&rig, &rig_worker(&rig, 1)->ended));
    const char *text = look(rig_worker(&rig, 1));
    cr_expect_str_eq(text, "py-spy could not be used: the worker has ended\n");
}

/* py-spy may be a program of the job. */
Test(py_spy, it_runs_as_the_workers_user)
{
    if (geteuid() != 0)
        cr_skip_test("only root can run workers as somebody else");
    py_spy_free(spy);
    rig_as_user(&rig, 65534, 65533);
    open_spy(RIG_PATIENCE_MS);
    const char *text = look_with("echo \"$(id -u) $(id -g)\"");
    cr_expect(str_ends(text, ":\n65534 65533\n"), "%s", text);
}

Test(py_spy, a_look_serves_those_who_ask_meanwhile)
{
    struct rig_worker *worker = python_with(".:/usr/bin:/bin", "echo once");
    py_spy_look(spy, &worker->key, worker->pid);
    (void)look(worker);
    rig_turn(&rig, 300);
    cr_expect_eq(found.count, 1);
    (void)look(worker);
    cr_expect_eq(found.count, 2);
}

/* finish() sees that no process is left. */
Test(py_spy, freed_during_a_look_it_tells_nothing)
{
    struct rig_worker *worker = python_with(".:/usr/bin:/bin", "exec sleep 1000");
    py_spy_look(spy, &worker->key, worker->pid);
    py_spy_free(spy);
    spy = NULL;
    rig_turn(&rig, 100);
    cr_expect_eq(found.count, 0);
}
