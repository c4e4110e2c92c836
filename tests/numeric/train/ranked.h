/* Ranks that find each other as torchrun's do: by RANK, WORLD_SIZE and the address of the first. */
#ifndef TRAIN_RANKED_H
#define TRAIN_RANKED_H

#include "libworker/step/context.h"

/* The environment of one of them; it points into itself, so it stays where it was made. */
struct ranked {
    char rank[8], world[8], port[8];
    struct environment environment;
};
void ranked_init(struct ranked *ret, int rank, int world, int port);

/* A port of this host that nobody listens at now. */
int ranked_port(void);

#endif
