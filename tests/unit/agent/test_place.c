#include <criterion/criterion.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/core/environment.h"
#include "agent/place.h"

Test(place, name_is_one_a_node_may_have)
{
    char name[NAME_LENGTH_MAX + 1];
    struct error err;
    int rc = place_name(name, &err);
    cr_assert(rc == 0 || rc == E_INVALID_ARGUMENT);
    if (rc == 0)
        cr_expect(strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-") == strlen(name));
}

Test(place, the_socket_is_in_the_folder_if_it_fits)
{
    char url[PLACE_SOCKET_MAX + 16], dir[200];
    struct error err;
    cr_assert_eq(place_hub_url("/data/n1", false, url, sizeof(url), &err), 0);
    cr_expect_str_eq(url, "ipc:///data/n1/hub.sock");
    char runtime[] = "/tmp/muster-place-XXXXXX";
    cr_assert_not_null(mkdtemp(runtime));
    setenv("XDG_RUNTIME_DIR", runtime, 1);
    memset(dir, 'd', sizeof(dir) - 1);
    dir[0] = '/';
    dir[sizeof(dir) - 1] = '\0';
    cr_assert_eq(place_hub_url(dir, false, url, sizeof(url), &err), 0, "%s", err.text);
    cr_expect(strncmp(url + 6, runtime, strlen(runtime)) == 0, "%s", url);
    cr_expect(strlen(url + 6) <= PLACE_SOCKET_MAX);
    char made[128];
    snprintf(made, sizeof(made), "%s/muster", runtime);
    rmdir(made);
    rmdir(runtime);
}

Test(place, address_leads_to_the_coordinator)
{
    char address[64];
    struct error err;
    cr_assert_eq(place_address("tcp://127.0.0.1:7440", address, sizeof(address), &err), 0);
    cr_expect_str_eq(address, "127.0.0.1");
    cr_assert_eq(place_address("tcp://[::1]:7440", address, sizeof(address), &err), 0);
    cr_expect_str_eq(address, "::1");
    cr_assert_eq(place_address("ipc:///x", address, sizeof(address), &err), 0);
    cr_expect_str_eq(address, "127.0.0.1");
    cr_expect_eq(place_address("tcp://no.such.host.invalid:1", address, sizeof(address), &err),
                 E_UNAVAILABLE);
}

Test(place, the_interface_of_an_address)
{
    char interface[PLACE_INTERFACE_BYTES] = "?";
    place_interface("127.0.0.1", interface);
    cr_expect_str_eq(interface, "lo");
    place_interface("192.0.2.1", interface); /* RFC 5737: nobody's */
    cr_expect_str_eq(interface, "");
    place_interface("localhost", interface);
    cr_expect_str_eq(interface, "");
}

Test(place, secrets_of_the_agent_are_not_inherited)
{
    struct arena arena = {0};
    setenv("MUSTER_TOKEN", "secret", 1);
    setenv("PATH", "/bin", 1);
    setenv("HOME", "/home/me", 1);
    const char *const *envp = place_environment(false, &arena);
    cr_expect_str_eq(environment_get(envp, "PATH"), "/bin");
    cr_expect_str_eq(environment_get(envp, "HOME"), "/home/me");
    cr_expect_null(environment_get(envp, "MUSTER_TOKEN"));
    setenv("LD_LIBRARY_PATH", "/x", 1);
    envp = place_environment(true, &arena);
    cr_expect_str_eq(environment_get(envp, "PATH"), "/bin");
    cr_expect_null(environment_get(envp, "HOME"));
    cr_expect_null(environment_get(envp, "LD_LIBRARY_PATH"));
    arena_fini(&arena);
}
