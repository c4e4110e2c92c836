#include "common/env/net_url.h"

#include <criterion/criterion.h>

static void expect_back(const char *key, const char *pins)
{
    char address[NET_ADDRESS_MAX];
    struct net_address found;
    struct error err = {0};
    cr_assert_eq(net_address_secure("tcp://[::1]:7440", key, pins, address, &err), 0, "%s",
                 err.text);
    cr_assert_eq(net_address_parse(address, &found, &err), 0, "%s: %s", address, err.text);
    cr_assert(found.tls);
    cr_assert_str_eq(found.url, "tcp://[::1]:7440");
    cr_assert_str_eq(found.key, key ? key : "");
    cr_assert_str_eq(found.pins, pins ? pins : "");
}

Test(net_url, an_address_with_keys_is_read_back)
{
    expect_back("/var/lib/muster/server.pem", NULL);
    expect_back(NULL, "pin");
    expect_back("/var/lib/muster/node.pem", "one,two");
}

Test(net_url, the_path_of_a_key_may_have_any_characters)
{
    expect_back("/home/a&b/r?&pin=x/50%/%26/server.pem", "pin");
}

Test(net_url, ports_end_at_65535)
{
    struct error err = {0};
    cr_expect_eq(net_url_check("tcp://host:65535", &err), 0);
    cr_expect_eq(net_url_check("tcp://host:0", &err), 0);
    cr_expect_eq(net_url_check("tcp://host:65536", &err), E_INVALID_ARGUMENT);
    cr_expect_eq(net_url_check("tcp://host:072976", &err), E_INVALID_ARGUMENT);
}
