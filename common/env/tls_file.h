/* What is in the files of keys and certificates, and the pins that identify keys. tls_key.h makes
 * the files, tls_read.h reads them.
 *
 *     cluster.pem   cluster key + its own certificate: the identity of a cluster; signs server keys
 *     server.pem    server key + its certificate + those of the cluster key: what a listener shows
 *     node.pem      a node's key + its own certificate: an agent proves its identity with it
 *
 * A pin is the SHA-256 of a public key (SubjectPublicKeyInfo) in base64url, as in RFC 7469. It
 * identifies a key in any certificate, so renewing certificates changes no pin. Keys are ECDSA on
 * P-256. Files have mode 0600 and are replaced by rename: readers see the old one or the new one.
 * Any thread.
 */
#ifndef ENV_TLS_FILE_H
#define ENV_TLS_FILE_H

enum {
    TLS_CHAIN_MAX = 4,  /* certificates of one file */
    TLS_NAMES_MAX = 64, /* names of one certificate */
    TLS_NAME_MAX = 256,
    TLS_PIN_LENGTH = 43,
    TLS_PIN_MAX = TLS_PIN_LENGTH + 1,
    TLS_FILE_MAX_BYTES = 64 << 10,
    TLS_SERVER_DAYS = 398,   /* a year of uptime and a month; renewed long before */
    TLS_BACKDATED_S = 86400, /* certificates begin this long before they were made, because clocks
                              * differ */
    TLS_RENEW_DAYS = 60,     /* a certificate with less time left is renewed */
};

#endif
