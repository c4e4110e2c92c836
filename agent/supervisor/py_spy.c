#include "agent/supervisor/py_spy.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/supervisor/terminal.h"
#include "common/base/buf.h"
#include "common/base/list.h"
#include "common/base/str.h"
#include "common/env/proc.h"
#include "common/env/proc_activity.h"

enum {
    ERRORS_BYTES = 4096,
    SCRIPT_HEAD_ARGS = 4, /* /bin/sh -c script sh */
    PID_BYTES = 16,
    SOME_SEEN = 0, /* the script's exit codes; 1 = py-spy failed each time */
    NO_PYTHON = 3,
    NOT_INSTALLED = 127,
};

/* "$@" are the processes. An environment of Python's need not be in PATH: py-spy is also looked for
 * beside the program that runs. Without a pause a stack that changes meanwhile cannot be read, so
 * it tries again. */
static const char script[] =
    "echo 1000 2>/dev/null >/proc/self/oom_score_adj\n"
    "code=3 spy=$(command -v py-spy)\n"
    "for pid do\n"
    "  exe=$(readlink /proc/$pid/exe) name=\n"
    "  read -r name 2>/dev/null </proc/$pid/comm\n"
    "  case \" ${exe##*/} $name\" in\n"
    "  *' python'*) ;;\n"
    "  *) grep -q libpython /proc/$pid/maps 2>/dev/null || continue ;;\n"
    "  esac\n"
    "  first=$(tr '\\0' '\\n' 2>/dev/null </proc/$pid/cmdline | head -n 1)\n"
    "  for dir in \"${first%/*}\" \"${exe%/*}\" \"$VIRTUAL_ENV/bin\" \"$CONDA_PREFIX/bin\" "
    "\"$HOME/.local/bin\"; do\n"
    "    [ -z \"$spy\" ] && [ -x \"$dir/py-spy\" ] && spy=$dir/py-spy\n"
    "  done\n"
    "  [ -z \"$spy\" ] && exit 127\n"
    "  [ $code = 3 ] && code=1\n"
    "  echo \"process $pid:\"\n"
    "  for again in 1 2 3; do\n"
    "    \"$spy\" dump --nonblocking --pid $pid && code=0 && break\n"
    "    [ $again = 3 ] && echo 'py-spy reads no stacks of it'\n"
    "  done\n"
    "done\n"
    "exit $code\n";

struct py_spy {
    struct loop *loop;
    struct launcher *launcher;
    char node[NAME_LENGTH_MAX + 1];
    void (*found)(void *arg, const struct worker_key *key, const char *text, size_t size);
    void *arg;
    int64_t patience_ms;
    struct list looks;
};

struct look { /* at one worker */
    struct py_spy *spy;
    struct list link;
    struct worker_key key;
    struct terminal *terminal; /* NULL: it was not opened */
    struct terminal_end end;   /* of it, or why it was not opened */
    struct loop_timer timer;
    struct buf doing;       /* a line for each process */
    struct buf out, errors; /* of the script */
};

static void look_free(struct look *look)
{
    loop_timer_cancel(look->spy->loop, &look->timer);
    terminal_free(look->terminal);
    list_remove(&look->link);
    buf_fini(&look->doing);
    buf_fini(&look->out);
    buf_fini(&look->errors);
    free(look);
}

/* Text of the job */

/* Without empty lines, py-spy's line with the command, and repeats of a line, which are left of an
 * attempt that failed. */
static void put_output(struct buf *out, const struct buf *from)
{
    static const char command[] = "Process ";
    const char *last = "", *end = buf_cstr(from) + from->size;
    size_t last_size = 0, size;
    for (const char *line = buf_cstr(from); line < end; line += size + 1) {
        const char *stop = memchr(line, '\n', (size_t)(end - line));
        size = stop ? (size_t)(stop - line) : (size_t)(end - line);
        bool again = size == last_size && memcmp(line, last, size) == 0;
        bool names_command =
            size >= strlen(command) && strncmp(line, command, strlen(command)) == 0;
        if (size == 0 || again || names_command)
            continue;
        (void)buf_printable(out, line, size);
        (void)buf_char(out, '\n');
        last = line;
        last_size = size;
    }
}

/* Its sentences */

static bool any_may_look(char ret_scope[2])
{
    int fd = open("/proc/sys/kernel/yama/ptrace_scope", O_RDONLY | O_CLOEXEC);
    ssize_t size = fd < 0 ? -1 : read(fd, ret_scope, 1);
    if (fd >= 0)
        close(fd);
    ret_scope[1] = '\0';
    return size != 1 || ret_scope[0] == '0';
}

static void put_refused(struct buf *out, const char *node)
{
    char scope[2];
    if (any_may_look(scope))
        (void)buf_printf(out,
                         "py-spy may not look at these processes: the kernel of node %s refuses it "
                         "(ptrace). The package muster in the program needs no such right: "
                         "docs/python.md\n",
                         node);
    else
        (void)buf_printf(
            out,
            "py-spy may not look at these processes: kernel.yama.ptrace_scope of node "
            "%s is %s, which reserves that for a debugger's own children. `sysctl "
            "kernel.yama.ptrace_scope=0` there allows it to the same user. The package "
            "muster in the program needs no such right: docs/python.md\n",
            node, scope);
}

static void put_failure(struct buf *out, const struct look *look)
{
    const char *errors = buf_cstr(&look->errors);
    if (strstr(errors, "ermission denied") || strstr(errors, "ermission Denied")) {
        put_refused(out, look->spy->node);
        return;
    }
    (void)buf_str(out, "py-spy saw no stacks");
    (void)buf_str(out, errors[0] ? ": " : "");
    (void)buf_printable(out, errors, strcspn(errors, "\n"));
    (void)buf_char(out, '\n');
}

static void put_end(struct buf *out, const struct look *look)
{
    const struct terminal_end *end = &look->end;
    if (end->reason != TERMINAL_EXITED)
        (void)buf_printf(out, "py-spy could not be used: %s\n",
                         end->why[0] ? end->why : "it was ended by a signal");
    else if (end->code == NO_PYTHON)
        (void)buf_str(out, "the program offers no stacks, and none of these processes is known to "
                           "be Python\n");
    else if (end->code == NOT_INSTALLED)
        (void)buf_printf(
            out,
            "the program offers no stacks, and py-spy is not installed for it on node "
            "%s: `pip install py-spy` there, or call the package muster in the program "
            "(docs/python.md)\n",
            look->spy->node);
    else if (end->code != SOME_SEEN)
        put_failure(out, look);
}

/* Pass on what there is. `why` there is no more; NULL: as the end of the terminal explains. */
static void finish(struct look *look, const char *why)
{
    struct py_spy *spy = look->spy;
    struct worker_key key = look->key;
    struct buf text = {0};
    (void)buf_append(&text, buf_cstr(&look->doing), look->doing.size);
    if (look->out.size > 0)
        (void)buf_str(&text, "py-spy, as the program offers no stacks itself:\n");
    put_output(&text, &look->out);
    if (why)
        (void)buf_printf(&text, "%s\n", why);
    else
        put_end(&text, look);
    look_free(look);
    spy->found(spy->arg, &key, buf_cstr(&text), text.size);
    buf_fini(&text);
}

/* Events of its terminal */

static void on_output(void *arg, enum terminal_stream stream, const char *bytes, size_t size)
{
    struct look *look = arg;
    struct buf *to = stream == TERMINAL_OUTPUT ? &look->out : &look->errors;
    size_t room = to->max_bytes - to->size;
    (void)buf_append(to, bytes, size < room ? size : room);
    if (size > room && stream == TERMINAL_OUTPUT)
        finish(look, "py-spy writes more than 64 KiB: the rest is left out");
}

static void on_writable(void *arg)
{
    (void)arg;
}

static void on_ended(void *arg, const struct terminal_end *end)
{
    struct look *look = arg;
    look->end = *end;
    finish(look, NULL);
}

static void on_timer(void *arg)
{
    struct look *look = arg;
    char why[64];
    (void)str_printf(why, sizeof(why), "py-spy did not end within %d s, and was ended",
                     (int)(look->spy->patience_ms / 1000));
    finish(look, look->terminal ? why : NULL);
}

/* Begin */

static void put_process(struct buf *out, pid_t pid)
{
    struct proc_activity is;
    if (proc_activity_read(pid, &is))
        return;
    (void)buf_printf(out, "process %d (", (int)pid);
    (void)buf_printable(out, is.name, strlen(is.name));
    (void)buf_printf(out, "): %s", proc_state_text(is.state));
    if (is.channel[0])
        (void)buf_printf(out, " in %s", is.channel);
    if (is.threads > 1)
        (void)buf_printf(out, ", %d threads", is.threads);
    (void)buf_char(out, '\n');
}

/* The number of processes that are looked at; the first is the worker's own. */
static int find_processes(struct look *look, pid_t first, pid_t ret[PY_SPY_PROCESSES_MAX])
{
    pid_t *children = NULL;
    size_t count = 0;
    int found = 0;
    ret[found++] = first;
    if (proc_descendants(first, &children, &count, NULL))
        count = 0;
    for (size_t i = 0; i < count && found < PY_SPY_PROCESSES_MAX; i++)
        if (proc_alive(children[i], 0))
            ret[found++] = children[i];
    free(children);
    for (int i = 0; i < found; i++)
        put_process(&look->doing, ret[i]);
    if (count >= PY_SPY_PROCESSES_MAX)
        (void)buf_printf(&look->doing, "and up to %zu more processes\n",
                         count + 1 - PY_SPY_PROCESSES_MAX);
    return found;
}

static int open_script(struct look *look, const pid_t *pids, int count, struct error *err)
{
    struct launcher *launcher = look->spy->launcher;
    char numbers[PY_SPY_PROCESSES_MAX][PID_BYTES];
    const char *argv[SCRIPT_HEAD_ARGS + PY_SPY_PROCESSES_MAX + 1] = {"/bin/sh", "-c", script, "sh"};
    struct terminal_wish wish = {.argv = argv};
    struct terminal_events events = {
        .arg = look, .output = on_output, .writable = on_writable, .ended = on_ended};
    for (int i = 0; i < count; i++) {
        (void)str_printf(numbers[i], PID_BYTES, "%d", (int)pids[i]);
        argv[SCRIPT_HEAD_ARGS + i] = numbers[i];
    }
    int rc =
        launcher->open_terminal(launcher->self, &look->key, &wish, &events, &look->terminal, err);
    if (!rc)
        terminal_end_input(look->terminal);
    return rc;
}

static bool is_looking(const struct py_spy *spy, const struct worker_key *key)
{
    const struct look *look;
    list_each(look, &spy->looks, link)
        if (look->key.uid == key->uid && strcmp(look->key.job, key->job) == 0)
            return true;
    return false;
}

void py_spy_look(struct py_spy *spy, const struct worker_key *key, int64_t pid)
{
    pid_t pids[PY_SPY_PROCESSES_MAX];
    struct error err = {0};
    int64_t now_ms = loop_now_ms(spy->loop);
    if (!spy->launcher->open_terminal || pid <= 0 || is_looking(spy, key))
        return;
    struct look *look = calloc(1, sizeof(*look));
    if (!look)
        return;
    *look = (struct look){.spy = spy, .key = *key};
    buf_init(&look->out, PY_SPY_BYTES);
    buf_init(&look->errors, ERRORS_BYTES);
    list_push_back(&spy->looks, &look->link);
    int count = find_processes(look, (pid_t)pid, pids);
    bool failed = open_script(look, pids, count, &err) != 0;
    if (failed) {
        look->end.reason = TERMINAL_LOST;
        (void)str_copy(look->end.why, sizeof(look->end.why), err.text);
    }
    loop_timer_set(spy->loop, &look->timer, failed ? now_ms : now_ms + spy->patience_ms, on_timer,
                   look);
}

/* Life */

int py_spy_new(const struct py_spy_options *options, struct py_spy **ret, struct error *err)
{
    struct py_spy *spy = calloc(1, sizeof(*spy));
    if (!spy)
        return error_set(err, E_RESOURCE_EXHAUSTED, "no memory for stacks");
    spy->loop = options->loop;
    spy->launcher = options->launcher;
    spy->found = options->found;
    spy->arg = options->arg;
    spy->patience_ms = options->patience_ms;
    (void)str_copy(spy->node, sizeof(spy->node), options->node);
    list_init(&spy->looks);
    *ret = spy;
    return 0;
}

void py_spy_free(struct py_spy *spy)
{
    if (!spy)
        return;
    while (!list_empty(&spy->looks))
        look_free(list_first(&spy->looks, struct look, link));
    free(spy);
}
