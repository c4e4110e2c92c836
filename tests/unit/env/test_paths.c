#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/str.h"
#include "common/env/paths.h"

static void clear(void)
{
    unsetenv("XDG_CONFIG_HOME");
    unsetenv("XDG_DATA_HOME");
    unsetenv("XDG_RUNTIME_DIR");
    setenv("HOME", "/home/u", 1);
}

TestSuite(paths, .init = clear);

Test(paths, defaults_are_under_home)
{
    char path[64], runtime[64];
    cr_assert_eq(paths_config_dir(path, sizeof(path), NULL), 0);
    cr_assert_str_eq(path, "/home/u/.config/muster");
    cr_assert_eq(paths_data_dir(path, sizeof(path), NULL), 0);
    cr_assert_str_eq(path, "/home/u/.local/share/muster");
    cr_assert_eq(paths_runtime_dir(path, sizeof(path), NULL), 0);
    str_printf(runtime, sizeof(runtime), "/tmp/muster-%u", (unsigned)getuid());
    cr_assert_str_eq(path, runtime);
}

Test(paths, variables_win_unless_they_are_relative)
{
    char path[64];
    setenv("XDG_CONFIG_HOME", "/c", 1);
    setenv("XDG_DATA_HOME", "relative", 1);
    setenv("XDG_RUNTIME_DIR", "/run/user/1", 1);
    cr_assert_eq(paths_config_dir(path, sizeof(path), NULL), 0);
    cr_assert_str_eq(path, "/c/muster");
    cr_assert_eq(paths_data_dir(path, sizeof(path), NULL), 0);
    cr_assert_str_eq(path, "/home/u/.local/share/muster");
    cr_assert_eq(paths_runtime_dir(path, sizeof(path), NULL), 0);
    cr_assert_str_eq(path, "/run/user/1/muster");
}

Test(paths, without_a_home_or_room_it_is_said)
{
    char path[64];
    struct error err;
    cr_assert_eq(paths_config_dir(path, 8, &err), E_OUT_OF_RANGE);
    unsetenv("HOME");
    cr_assert_eq(paths_config_dir(path, sizeof(path), &err), E_NOT_FOUND);
}

Test(paths, joining_and_making_absolute)
{
    char path[600], here[512];
    cr_assert_eq(paths_join(path, sizeof(path), "/a", "b", NULL), 0);
    cr_assert_str_eq(path, "/a/b");
    cr_assert_eq(paths_join(path, sizeof(path), "/a/", "b", NULL), 0);
    cr_assert_str_eq(path, "/a/b");
    cr_assert_eq(paths_join(path, 4, "/a", "b", NULL), E_OUT_OF_RANGE);
    cr_assert_eq(paths_absolute(path, sizeof(path), "/x/y", NULL), 0);
    cr_assert_str_eq(path, "/x/y");
    cr_assert_eq(paths_absolute(path, sizeof(path), "x", NULL), 0);
    cr_assert_not_null(getcwd(here, sizeof(here)));
    cr_assert(str_starts(path, here) && str_ends(path, "/x"));
    cr_assert_eq(paths_absolute(path, 2, "x", NULL), E_OUT_OF_RANGE);
}
