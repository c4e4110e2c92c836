/* How GPUs of a node are connected: a link in one byte, larger for a nearer pair, and in a word of
 * `nvidia-smi topo -m`. A row has the links of one GPU to all, by slot: "X NV18 NV18 SYS". Pure.
 *
 *     SYS    across the bus between sockets (NUMA nodes)
 *     NODE   across host bridges of one NUMA node
 *     PHB    across one PCIe host bridge, which is usually the CPU
 *     PXB    across several PCIe bridges, but no host bridge
 *     PIX    across one PCIe bridge at most
 *     NV18   across 18 NVLinks, directly or through NVSwitches
 *     X      itself
 *     -      not known
 */
#ifndef BASE_GPU_LINK_H
#define BASE_GPU_LINK_H

#include <stdint.h>

enum gpu_link {
    GPU_LINK_UNKNOWN,
    GPU_LINK_SYS,
    GPU_LINK_NODE,
    GPU_LINK_PHB,
    GPU_LINK_PXB,
    GPU_LINK_PIX,
    GPU_LINK_NVLINK = 16, /* and the number of NVLinks is added */
    GPU_LINK_SELF = 255,
};

enum {
    GPU_LINKS_MAX = 64,        /* GPUs of a node */
    GPU_LINK_NVLINKS_MAX = 99, /* of a pair; more count as this */
    GPU_LINK_WORD_BYTES = sizeof("NODE"),
    GPU_LINKS_TEXT_BYTES = GPU_LINKS_MAX * GPU_LINK_WORD_BYTES, /* of a row */
};

/* Of a pair with this many NVLinks, at least 1. */
uint8_t gpu_link_of_nvlinks(int nvlinks);
/* 0 of a pair without NVLinks, and of a GPU to itself. */
int gpu_link_nvlinks(uint8_t link);

void gpu_link_write(uint8_t link, char ret[GPU_LINK_WORD_BYTES]);
/* The first `count` links as a row; "" if only those to itself are known. */
void gpu_links_write(const uint8_t *links, int count, char ret[GPU_LINKS_TEXT_BYTES]);
/* Read a row; words that are not known become GPU_LINK_UNKNOWN, and so does what a short row lacks.
 * Returns the number of words, at most GPU_LINKS_MAX. */
int gpu_links_read(const char *row, uint8_t ret[GPU_LINKS_MAX]);

#endif
