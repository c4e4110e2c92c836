/* Bytes of a stranger at the TLS port, from its first one on; and a connection whose bytes somebody
 * between both ends changes. Whatever comes, a session goes on, waits or says that it cannot; what
 * it reads of the program is what the other end wrote, from its start.
 *
 *     input: how, cut, then raw bytes for the server, or edits (2 bytes where, 1 byte xor)
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/assert.h"
#include "common/base/str.h"
#include "common/env/tls.h"
#include "common/env/tls_key.h"
#include "common/env/tls_read.h"
#include "tests/fuzz/fuzz.h"

enum { EDIT_BYTES = 3, CUT_BYTES = 16, TURNS_MAX = 16, WORDS_BYTES = 20000, HOW_BYTES = 2 };
enum { EDITED = 1, OF_SERVER = 2 }; /* bits of how; else raw bytes, edits of the client's */

static struct tls_identity *server_identity, *client_identity;
static char pin[TLS_PIN_MAX];
static uint8_t words[WORDS_BYTES];

static void make_keys(void)
{
    char dir[] = "/tmp/fuzz-tls-XXXXXX", cluster[64], server[64], node[64];
    struct tls_facts facts;
    insist(mkdtemp(dir));
    (void)str_printf(cluster, sizeof(cluster), "%s/cluster.pem", dir);
    (void)str_printf(server, sizeof(server), "%s/server.pem", dir);
    (void)str_printf(node, sizeof(node), "%s/node.pem", dir);
    insist(tls_make_cluster_key(cluster, NULL, NULL) == 0);
    insist(tls_make_server_key(server, cluster, NULL, NULL) == 0);
    insist(tls_make_node_key(node, "n1", NULL) == 0);
    insist(tls_read_facts(server, &facts, NULL) == 0);
    (void)str_copy(pin, sizeof(pin), facts.signer);
    insist(tls_identity_new(server, &server_identity, NULL) == 0);
    insist(tls_identity_new(node, &client_identity, NULL) == 0);
    (void)unlink(cluster);
    (void)unlink(server);
    (void)unlink(node);
    (void)rmdir(dir);
    for (size_t i = 0; i < sizeof(words); i++)
        words[i] = (uint8_t)(i * 7 + i / 256);
}

struct end {
    struct tls_session *tls;
    bool through, broken;
    size_t sent, read; /* of what this end wrote; of what it read */
};

/* As the program does with bytes that came. */
static void take(struct end *end, const uint8_t *bytes, size_t size)
{
    struct error err = {0};
    uint8_t got[4096];
    if (end->broken)
        return;
    insist(tls_feed(end->tls, bytes, size) == 0);
    if (!end->through) {
        int rc = tls_handshake(end->tls, &err);
        end->broken = rc < 0;
        end->through = rc > 0;
        insist(rc >= 0 || (err.code == rc && err.text[0]));
    }
    while (end->through && !end->broken) {
        int64_t count = tls_read(end->tls, got, sizeof(got));
        end->broken = count < 0;
        if (count <= 0)
            break;
        insist(end->read + (size_t)count <= sizeof(words));
        insist(memcmp(got, words + end->read, (size_t)count) == 0);
        end->read += (size_t)count;
    }
}

static void stranger(const uint8_t *data, size_t size, size_t cut)
{
    struct end server = {0};
    insist(tls_server_new(server_identity, &server.tls, NULL) == 0);
    for (size_t at = 0; at < size; at += cut)
        take(&server, data + at, size - at < cut ? size - at : cut);
    insist(!server.through); /* nobody proves anything by chance */
    tls_session_free(server.tls);
}

struct edits {
    const uint8_t *all;
    size_t size, passed; /* bytes that went by */
};

static void pass(struct end *from, struct end *to, struct edits *edits, size_t cut)
{
    struct buf *out = tls_out(from->tls);
    uint8_t *bytes = (uint8_t *)out->data;
    for (size_t i = 0; edits && i + EDIT_BYTES <= edits->size; i += EDIT_BYTES) {
        size_t where = (size_t)edits->all[i] << 8 | edits->all[i + 1];
        if (where >= edits->passed && where - edits->passed < out->size)
            bytes[where - edits->passed] ^= edits->all[i + 2];
    }
    if (edits)
        edits->passed += out->size;
    for (size_t at = 0; at < out->size; at += cut)
        take(to, bytes + at, out->size - at < cut ? out->size - at : cut);
    buf_clear(out);
    if (from->through && !from->broken && from->sent == 0) {
        insist(tls_write(from->tls, words, sizeof(words)) == 0);
        from->sent = sizeof(words);
    }
}

static void between(const uint8_t *data, size_t size, bool of_server, size_t cut)
{
    struct end server = {0}, client = {0};
    struct edits edits = {.all = data, .size = size};
    insist(tls_server_new(server_identity, &server.tls, NULL) == 0);
    insist(tls_client_new(client_identity, pin, &client.tls, NULL) == 0);
    take(&client, (const uint8_t *)"", 0);
    for (int turn = 0; turn < TURNS_MAX; turn++) {
        pass(&client, &server, of_server ? NULL : &edits, cut);
        pass(&server, &client, of_server ? &edits : NULL, cut);
    }
    insist(size >= EDIT_BYTES || (server.read == WORDS_BYTES && client.read == WORDS_BYTES));
    tls_session_free(server.tls);
    tls_session_free(client.tls);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!server_identity)
        make_keys();
    if (size < HOW_BYTES)
        return 0;
    size_t cut = data[1] ? (size_t)data[1] * CUT_BYTES : SIZE_MAX;
    if (data[0] & EDITED)
        between(data + HOW_BYTES, size - HOW_BYTES, data[0] & OF_SERVER, cut);
    else
        stranger(data + HOW_BYTES, size - HOW_BYTES, cut);
    return 0;
}
