/* The endpoints of all ranks, as a bootstrap collects them. Belongs to its user; one thread. */
#ifndef COMM_TABLE_H
#define COMM_TABLE_H

#include <stdint.h>

#include "libworker/comm/comm.h"

struct comm_table {
    int world;
    char (*endpoints)[COMM_ENDPOINT_BYTES]; /* [world] */
    const char **endpoint_list;             /* [world], into endpoints: for comm_options */
    int *hosts;                             /* [world] */
    uint8_t secret[COMM_SECRET_BYTES];
    uint64_t
        generation; /* drawn by rank 0 with the secret, so a late rank of an old run is refused */
};

void comm_table_fini(struct comm_table *table);

#endif
