#include "libworker/comm/bootstrap_protocol.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#define BOOTSTRAP_MAGIC UINT32_C(0x74626b77)

enum { BOOTSTRAP_VERSION = 2 };

static const uint8_t *key_of(const struct comm_bootstrap_options *options)
{
    static const uint8_t none[COMM_SECRET_BYTES];
    return options->secret ? options->secret : none;
}

void bootstrap_greet(struct bootstrap_greeting *greeting,
                     const struct comm_bootstrap_options *options)
{
    *greeting = (struct bootstrap_greeting){.magic = BOOTSTRAP_MAGIC,
                                            .version = BOOTSTRAP_VERSION,
                                            .base_port = options->master_port,
                                            .world = options->world};
    snprintf(greeting->run, sizeof(greeting->run), "%s", options->run ? options->run : "");
    (void)!getrandom(greeting->nonce, sizeof(greeting->nonce), 0);
}

enum bootstrap_whose bootstrap_classify(const struct bootstrap_greeting *greeting,
                                        const struct comm_bootstrap_options *options)
{
    if (greeting->magic != BOOTSTRAP_MAGIC || greeting->version != BOOTSTRAP_VERSION ||
        greeting->base_port != options->master_port ||
        !memchr(greeting->run, '\0', sizeof(greeting->run)))
        return BOOTSTRAP_STRANGERS;
    bool same = greeting->world == options->world &&
                strcmp(greeting->run, options->run ? options->run : "") == 0;
    return same ? BOOTSTRAP_OURS : BOOTSTRAP_OTHERS;
}

/* Name the kernel and the network namespace: ranks with equal names reach each other's abstract
 * sockets. */
static void name_host(char *ret_host, size_t bytes)
{
    char boot[40] = "", space[32] = "";
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
    if (file) {
        if (fgets(boot, sizeof(boot), file))
            boot[strcspn(boot, "\n")] = '\0';
        fclose(file);
    }
    ssize_t n = readlink("/proc/self/ns/net", space, sizeof(space) - 1);
    space[n > 0 ? n : 0] = '\0';
    snprintf(ret_host, bytes, "%s %s", boot, space);
}

static void entry_mac(const struct bootstrap_entry *entry,
                      const struct comm_bootstrap_options *options,
                      const struct bootstrap_greeting *greeting, uint8_t ret[SHA256_BYTES])
{
    struct hmac_sha256 hmac;
    hmac_sha256_init(&hmac, key_of(options), COMM_SECRET_BYTES);
    hmac_sha256_update(&hmac, greeting, sizeof(*greeting));
    hmac_sha256_update(&hmac, entry, offsetof(struct bootstrap_entry, mac));
    hmac_sha256_final(&hmac, ret);
}

int bootstrap_enter(struct bootstrap_entry *entry, const struct comm_bootstrap_options *options,
                    const struct bootstrap_greeting *greeting, struct error *err)
{
    *entry = (struct bootstrap_entry){.magic = BOOTSTRAP_MAGIC, .rank = options->rank};
    if (strlen(options->endpoint) >= sizeof(entry->endpoint))
        return error_set(err, WK_EINVAL, "an endpoint of %zu bytes", strlen(options->endpoint));
    snprintf(entry->endpoint, sizeof(entry->endpoint), "%s", options->endpoint);
    if (options->host)
        snprintf(entry->host, sizeof(entry->host), "%s", options->host);
    else
        name_host(entry->host, sizeof(entry->host));
    entry_mac(entry, options, greeting, entry->mac);
    return 0;
}

bool bootstrap_entry_valid(const struct bootstrap_entry *entry,
                           const struct comm_bootstrap_options *options,
                           const struct bootstrap_greeting *greeting)
{
    uint8_t mac[SHA256_BYTES];
    entry_mac(entry, options, greeting, mac);
    return entry->magic == BOOTSTRAP_MAGIC && entry->rank >= 0 && entry->rank < options->world &&
           memchr(entry->endpoint, '\0', sizeof(entry->endpoint)) &&
           memchr(entry->host, '\0', sizeof(entry->host)) && sha256_equal(mac, entry->mac);
}

void bootstrap_table_init(struct bootstrap_table *table,
                          const struct comm_bootstrap_options *options)
{
    *table = (struct bootstrap_table){.magic = BOOTSTRAP_MAGIC, .world = options->world};
}

void bootstrap_table_mac(const struct bootstrap_table *table, const struct bootstrap_row *rows,
                         const struct comm_bootstrap_options *options,
                         const struct bootstrap_greeting *greeting, uint8_t ret[SHA256_BYTES])
{
    struct hmac_sha256 hmac;
    hmac_sha256_init(&hmac, key_of(options), COMM_SECRET_BYTES);
    hmac_sha256_update(&hmac, greeting, sizeof(*greeting));
    hmac_sha256_update(&hmac, table, offsetof(struct bootstrap_table, mac));
    if (!*table->refusal)
        hmac_sha256_update(&hmac, rows, (size_t)options->world * sizeof(*rows));
    hmac_sha256_final(&hmac, ret);
}

int bootstrap_table_copy(struct comm_table *ret, const struct bootstrap_table *table,
                         const struct bootstrap_row *rows, struct error *err)
{
    size_t world = (size_t)table->world;
    struct comm_table t = {.world = table->world, .generation = table->generation};
    memcpy(t.secret, table->secret, sizeof(t.secret));
    t.endpoints = calloc(world, sizeof(*t.endpoints));
    t.endpoint_list = calloc(world, sizeof(*t.endpoint_list));
    t.hosts = calloc(world, sizeof(*t.hosts));
    if (!t.endpoints || !t.endpoint_list || !t.hosts) {
        comm_table_fini(&t);
        return error_set(err, WK_ENOMEM, "no memory for a table of %zu ranks", world);
    }
    for (size_t r = 0; r < world; r++) {
        memcpy(t.endpoints[r], rows[r].endpoint, sizeof(t.endpoints[r]));
        t.endpoints[r][sizeof(t.endpoints[r]) - 1] = '\0';
        t.endpoint_list[r] = t.endpoints[r];
        t.hosts[r] = rows[r].host;
    }
    *ret = t;
    return 0;
}

bool bootstrap_cancelled(const struct comm_bootstrap_options *options)
{
    return options->cancelled && options->cancelled(options->cancelled_arg);
}
