/* Browser sessions: on a disk that is full, and when there are many. */
#include <criterion/criterion.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/env/clock_os.h"
#include "common/env/disk_os.h"
#include "common/env/rng_os.h"
#include "coordinator/api_rest/session.h"

enum { LATER_MS = 60000 };

static char folder[] = "/tmp/muster-sessions-XXXXXX";
static struct disk real;
static bool full;
static int64_t later_ms;
static struct env env;
static struct sessions *sessions;

static int write_unless_full(void *self, const char *path, const void *data, size_t size, int mode,
                             struct error *err)
{
    return full ? error_errno(err, ENOSPC, "%s", path)
                : real.write_file(self, path, data, size, mode, err);
}

static int64_t now_ms(void *self)
{
    (void)self;
    return 1000 + later_ms;
}

/* Each session is opened at a time of its own: of those of one millisecond any may be the oldest.
 */
static int64_t wall_ms(void *self)
{
    static int64_t now;
    if (!now)
        now = clock_os().wall_ms(self);
    return ++now;
}

static void restart(void)
{
    sessions_free(sessions);
    cr_assert_eq(sessions_new(&env, folder, &sessions, NULL), 0);
}

static void begin(void)
{
    cr_assert(mkdtemp(folder));
    real = disk_os();
    env = (struct env){.clock = clock_os(), .rng = rng_os(), .disk = real};
    env.clock.now_ms = now_ms;
    env.clock.wall_ms = wall_ms;
    env.disk.write_file = write_unless_full;
    restart();
}

static void finish(void)
{
    sessions_free(sessions);
    (void)real.remove_tree(real.self, folder, NULL);
}

static int open_one(const char *token, const char *token_id, bool admin, char ret[SESSION_ID_MAX])
{
    struct session_owner owner = {token, token_id, admin};
    struct session_keys keys;
    int rc = session_open(sessions, &owner, &keys, NULL);
    if (rc == 0)
        snprintf(ret, SESSION_ID_MAX, "%s.%s", keys.cookie, keys.half);
    return rc;
}

TestSuite(sessions, .init = begin, .fini = finish);

Test(sessions, one_that_ended_on_a_full_disk_comes_back_with_no_restart)
{
    char ended[SESSION_ID_MAX], other[SESSION_ID_MAX];
    cr_assert_eq(open_one("one", "a1", false, ended), 0);
    cr_assert_eq(open_one("two", "a2", false, other), 0);
    full = true;
    session_close(sessions, ended);
    cr_expect_null(session_token(sessions, ended));
    cr_expect_str_eq(session_token(sessions, other), "two");
    restart();
    cr_expect_null(session_token(sessions, ended));
}

Test(sessions, the_others_are_kept_again_once_there_is_room)
{
    char ended[SESSION_ID_MAX], other[SESSION_ID_MAX];
    cr_assert_eq(open_one("one", "a1", false, ended), 0);
    cr_assert_eq(open_one("two", "a2", false, other), 0);
    full = true;
    session_close(sessions, ended);
    full = false;
    later_ms = LATER_MS;
    cr_expect_str_eq(session_token(sessions, other), "two");
    restart();
    cr_expect_null(session_token(sessions, ended));
    cr_expect_str_eq(session_token(sessions, other), "two");
}

Test(sessions, a_token_has_a_few_and_the_oldest_makes_room)
{
    char first[SESSION_ID_MAX], admin[SESSION_ID_MAX], last[SESSION_ID_MAX];
    cr_assert_eq(open_one("admin", "b0", true, admin), 0);
    cr_assert_eq(open_one("viewer", "b1", false, first), 0);
    later_ms = 1;
    for (int i = 0; i < SESSIONS_MAX + 10; i++)
        cr_assert_eq(open_one("viewer", "b1", false, last), 0);
    cr_expect_str_eq(session_token(sessions, last), "viewer");
    cr_expect_str_eq(session_token(sessions, admin), "admin");
    restart();
    cr_expect_str_eq(session_token(sessions, admin), "admin");
}

Test(sessions, those_of_administrators_give_way_to_their_own_only)
{
    char admin[SESSION_ID_MAX], id[SESSION_ID_MAX], name[16];
    cr_assert_eq(open_one("admin", "c", true, admin), 0);
    for (int i = 0; i < SESSIONS_MAX + 50; i++) {
        snprintf(name, sizeof(name), "v%d", i);
        cr_assert_eq(open_one("viewer", name, false, id), 0);
    }
    cr_expect_str_eq(session_token(sessions, admin), "admin");
    cr_expect_str_eq(session_token(sessions, id), "viewer");
}

/* In memory only: a thousand files would take their time. */
static void begin_anew(void)
{
    sessions_free(sessions);
    cr_assert_eq(sessions_new(&env, NULL, &sessions, NULL), 0);
}

static int open_many(const char *token_id, bool admin, int count)
{
    char id[SESSION_ID_MAX];
    int rc = 0;
    for (int i = 0; i < count && rc == 0; i++)
        rc = open_one("token", token_id, admin, id);
    return rc;
}

Test(sessions, a_token_that_opens_many_loses_its_own_only)
{
    char first[SESSION_ID_MAX], other[SESSION_ID_MAX];
    begin_anew();
    cr_assert_eq(open_one("two", "a2", false, other), 0);
    cr_assert_eq(open_one("one", "a1", false, first), 0);
    cr_assert_eq(open_many("a1", false, SESSIONS_OF_TOKEN_MAX - 1), 0);
    cr_expect_not_null(session_token(sessions, first));
    cr_assert_eq(open_many("a1", false, SESSIONS_OF_TOKEN_MAX), 0);
    cr_expect_null(session_token(sessions, first));
    cr_expect_str_eq(session_token(sessions, other), "two");
}

/* As many tokens as it takes to fill all places, twice. */
static void open_viewers(void)
{
    for (int i = 0; i < 2 * SESSIONS_MAX / SESSIONS_OF_TOKEN_MAX; i++) {
        char token_id[16];
        snprintf(token_id, sizeof(token_id), "v%d", i);
        cr_assert_eq(open_many(token_id, false, SESSIONS_OF_TOKEN_MAX), 0);
    }
}

Test(sessions, many_viewers_push_out_no_administrator_and_none_that_has_few, .timeout = 120)
{
    char admin[SESSION_ID_MAX], one[SESSION_ID_MAX], later[SESSION_ID_MAX];
    begin_anew();
    cr_assert_eq(open_one("admin", "a1", true, admin), 0);
    cr_assert_eq(open_one("one", "a2", false, one), 0);
    open_viewers();
    cr_expect_str_eq(session_token(sessions, admin), "admin");
    cr_expect_str_eq(session_token(sessions, one), "one");
    cr_assert_eq(open_one("later", "a3", true, later), 0);
    cr_expect_str_eq(session_token(sessions, later), "later");
}

Test(sessions, administrators_that_have_all_places_keep_them, .timeout = 120)
{
    char id[SESSION_ID_MAX], token_id[16];
    begin_anew();
    int rc = 0;
    for (int i = 0; i < SESSIONS_MAX && rc == 0; i++) {
        snprintf(token_id, sizeof(token_id), "a%d", i / SESSIONS_OF_TOKEN_MAX);
        rc = open_one("admin", token_id, true, id);
    }
    cr_assert_eq(rc, 0);
    struct error err = {0};
    struct session_owner viewer = {"viewer", "v1", false};
    struct session_keys keys;
    cr_expect_eq(session_open(sessions, &viewer, &keys, &err), E_RESOURCE_EXHAUSTED);
    cr_expect_str_eq(session_token(sessions, id), "admin");
}
