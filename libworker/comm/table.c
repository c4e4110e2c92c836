#include "libworker/comm/table.h"

#include <stdlib.h>

void comm_table_fini(struct comm_table *table)
{
    free(table->endpoints);
    free(table->endpoint_list);
    free(table->hosts);
    *table = (struct comm_table){.world = 0};
}
