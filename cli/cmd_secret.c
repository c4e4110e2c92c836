/* muster secret: named values of a tenant, given to jobs by reference */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

#include "cli/client.h"
#include "cli/table.h"
#include "common/base/limits.h"
#include "common/base/str.h"
#include "common/rpc/message.h"

static const char *const actions[] = {"set", "list", "rm", "rekey", NULL};

static const struct args_option options[] = {
    CLIENT_OPTIONS,
    CLIENT_OUTPUT,
    {.name = "tenant",
     .kind = ARGS_OPTION,
     .help = "the secret's tenant (else the token's tenant; for an administrator default, and list "
             "shows all)"},
    {.name = "from-file",
     .kind = ARGS_OPTION,
     .value_name = "FILE",
     .help = "set: read the value from this file, not from standard input; a final newline is left "
             "out"},
    {.name = "drop-lost",
     .kind = ARGS_FLAG,
     .help = "rekey: remove secrets without a key; they can be set again"},
    {.name = "action",
     .kind = ARGS_POSITIONAL,
     .required = true,
     .choices = actions,
     .help = "what to do"},
    {.name = "name",
     .kind = ARGS_POSITIONAL,
     .values = "secret",
     .help = "of the secret: lower-case letters, digits, '.' and '-'"},
    {0},
};
static const char *const examples[] = {
    "muster secret set hf",
    "muster secret set wandb --from-file ~/.wandb-key",
    "muster submit --secret HF_TOKEN=hf -- python train.py",
    NULL,
};
static const struct args_command command = {
    .program = "muster secret",
    .summary = "keep secrets that jobs use by name",
    .description =
        "set reads a value of at most 64 KiB from standard input, without showing it on a "
        "terminal. Jobs name secrets (`--secret VARIABLE=NAME`); their workers have the value in "
        "VARIABLE and in the file MUSTER_SECRETS/VARIABLE, and output shows *** in its place. No "
        "command shows a value again. A changed value reaches workers that start after it. rekey "
        "(administrators) seals all values with a new key; backups made before need the key file "
        "of their time.",
    .options = options,
    .examples = examples,
};

static int fail(const char *text, const char *hint)
{
    struct error err;
    error_set(&err, E_INVALID_ARGUMENT, "%s", text);
    error_hint(&err, "%s", hint);
    return client_fail(&err);
}

/* Standard input without echo, where it is a terminal. Signals that end the program wait until the
 * terminal is as before. */
struct silence {
    bool on;
    struct termios before;
    sigset_t signals;
};

static void silence_begin(struct silence *silence, const char *prompt)
{
    sigset_t block;
    *silence = (struct silence){0};
    if (!isatty(STDIN_FILENO) || tcgetattr(STDIN_FILENO, &silence->before) < 0)
        return;
    struct termios quiet = silence->before;
    quiet.c_lflag &= ~(tcflag_t)(ECHO | ISIG);
    sigemptyset(&block);
    sigaddset(&block, SIGTERM);
    sigaddset(&block, SIGHUP);
    sigprocmask(SIG_BLOCK, &block, &silence->signals);
    silence->on = tcsetattr(STDIN_FILENO, TCSAFLUSH, &quiet) == 0;
    fprintf(stderr, "%s", prompt);
}

static void silence_end(struct silence *silence)
{
    if (!silence->on)
        return;
    (void)tcsetattr(STDIN_FILENO, TCSAFLUSH, &silence->before);
    sigprocmask(SIG_SETMASK, &silence->signals, NULL);
    fprintf(stderr, "\n");
}

/* All of the file, of a terminal one line. Ctrl-C is a character while nothing is echoed. */
static int read_value(FILE *file, bool one_line, struct buf *ret)
{
    int c;
    while ((c = fgetc(file)) != EOF && !(one_line && c == '\n')) {
        if (c == 0)
            return fail("the value has a NUL byte", "encode it first, for example with base64");
        if (one_line && c == 3)
            return fail("interrupted", "nothing was set");
        if (ret->size > MAX_SECRET_BYTES || buf_char(ret, (char)c))
            return fail("a secret has at most 64 KiB",
                        "keep what is larger on a file system that the nodes share");
    }
    if (ferror(file))
        return fail("the value cannot be read", strerror(errno));
    while (!one_line && ret->size > 0 && strchr("\r\n", ret->data[ret->size - 1])) {
        bool was_line_end = ret->data[ret->size - 1] == '\n';
        ret->data[--ret->size] = '\0';
        if (was_line_end && (ret->size == 0 || ret->data[ret->size - 1] != '\r'))
            break;
    }
    return ret->size ? 0 : fail("the value is empty", "muster secret rm removes a secret");
}

static int take_value(const struct args *args, const char *name, struct buf *ret)
{
    const char *path = args_text(args, "from-file");
    struct silence silence;
    char prompt[128];
    if (path) {
        FILE *file = fopen(path, "re");
        if (!file)
            return fail(path, strerror(errno));
        int code = read_value(file, false, ret);
        fclose(file);
        return code;
    }
    (void)str_printf(prompt, sizeof(prompt), "value of %.63s (not shown): ", name);
    silence_begin(&silence, prompt);
    int code = read_value(stdin, silence.on, ret);
    silence_end(&silence);
    return code;
}

static const char *when(int64_t wall_ms, char ret[FORMAT_MAX])
{
    return wall_ms ? format_time(wall_ms, ret) : "";
}

static void print_secrets(Muster__Secret *const *secrets, size_t count)
{
    static const char *const titles[] = {"NAME",  "TENANT", "CREATED", "CHANGED", "BY",
                                         ">USED", ">JOBS",  "",        NULL};
    struct table table;
    table_init(&table, titles);
    for (size_t i = 0; i < count; i++) {
        const Muster__Secret *secret = secrets[i];
        char time[FORMAT_MAX];
        table_cell(&table, "%s", secret->name);
        table_cell(&table, "%s", secret->tenant);
        table_cell(&table, "%s", when(secret->created_wall_ms, time));
        table_cell(&table, "%s", when(secret->changed_wall_ms, time));
        table_cell(&table, "%s", secret->changed_by);
        table_cell(&table, "%s",
                   secret->used_wall_ms ? age_text(secret->used_wall_ms, time) : "never");
        table_cell(&table, "%u", secret->jobs_count);
        table_cell(&table, "%s", secret->lost ? "its key is not here" : "");
    }
    table_print(&table, stdout, "no secrets");
    table_fini(&table);
}

static int list(const struct args *args, const char *tenant)
{
    Muster__ListSecretsRequest request = MUSTER__LIST_SECRETS_REQUEST__INIT;
    Muster__ListSecretsAnswer *answer = NULL;
    request.tenant = (char *)tenant;
    int code = client_ask(args, "ListSecrets", &request, &answer);
    if (code == 0 && !client_printed(args, answer))
        print_secrets(answer->secrets, answer->n_secrets);
    rpc_message_free(answer);
    return code;
}

static int set(const struct args *args, const char *name, const char *tenant)
{
    Muster__SetSecretRequest request = MUSTER__SET_SECRET_REQUEST__INIT;
    Muster__Secret *secret = NULL;
    struct buf value;
    buf_init(&value, MAX_SECRET_BYTES + 2);
    int code = take_value(args, name, &value);
    request.name = (char *)name;
    request.tenant = (char *)tenant;
    request.value = (char *)buf_cstr(&value);
    if (code == 0)
        code = client_ask(args, "SetSecret", &request, &secret);
    if (value.data)
        explicit_bzero(value.data, value.size);
    buf_fini(&value);
    if (code == 0 && !client_printed(args, secret))
        printf("secret %s of tenant %s is set: muster submit --secret VARIABLE=%s\n", secret->name,
               secret->tenant, secret->name);
    rpc_message_free(secret);
    return code;
}

static int drop(const struct args *args, const char *name, const char *tenant)
{
    Muster__RemoveSecretRequest request = MUSTER__REMOVE_SECRET_REQUEST__INIT;
    Muster__Secret *secret = NULL;
    request.name = (char *)name;
    request.tenant = (char *)tenant;
    int code = client_ask(args, "RemoveSecret", &request, &secret);
    if (code == 0 && !client_printed(args, secret))
        printf("secret %s of tenant %s is removed; workers that run keep its value\n", secret->name,
               secret->tenant);
    rpc_message_free(secret);
    return code;
}

static int rekey(const struct args *args)
{
    Muster__RekeySecretsRequest request = MUSTER__REKEY_SECRETS_REQUEST__INIT;
    Muster__RekeySecretsAnswer *answer = NULL;
    request.drop_lost = args_flag(args, "drop-lost");
    int code = client_ask(args, "RekeySecrets", &request, &answer);
    if (code == 0 && !client_printed(args, answer))
        printf("%u secrets are sealed with the newest key (%s), %u were dropped\n", answer->sealed,
               answer->place, answer->dropped);
    rpc_message_free(answer);
    return code;
}

static int run_secret(const struct args *args)
{
    const char *action = args_text(args, "action"), *name = args_text(args, "name");
    const char *tenant = args_text(args, "tenant") ? args_text(args, "tenant") : "";
    if (strcmp(action, "list") == 0)
        return list(args, tenant);
    if (strcmp(action, "rekey") == 0)
        return rekey(args);
    if (!name)
        return fail("which secret? it needs a name", "muster secret list shows them");
    return strcmp(action, "set") == 0 ? set(args, name, tenant) : drop(args, name, tenant);
}

const struct verb verb_secret = {.name = "secret", .command = &command, .run = run_secret};
