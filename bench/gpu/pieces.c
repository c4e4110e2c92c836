/* bench_gpu_pieces adamw COUNT
 * bench_gpu_pieces attention SAMPLES LENGTH HEADS KV_HEADS SIZE */
#include "bench/gpu/pieces.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/gpu/rounds.h"
#include "libworker/device/module.h"

enum { ROUNDS = 7, EACH = 4 };

int piece_open(struct piece *piece)
{
    const struct module_table *module;
    struct error err = {0};
    int count = 0;
    if (module_open(getenv(MODULE_VARIABLE), &module, &err) || module->count(&count, &err) ||
        module->device_new(0, &piece->device, &err) ||
        queue_new(piece->device, &piece->queue, &err)) {
        fprintf(stderr, "bench_gpu_pieces: %s\n", err.text);
        return 1;
    }
    const char *attention = getenv("MUSTER_ATTENTION");
    module->attention(piece->device, attention ? attention : "auto");
    return 0;
}

void piece_close(struct piece *piece)
{
    queue_free(piece->queue);
    device_free(piece->device);
}

void *piece_memory(struct piece *piece, size_t bytes, unsigned char byte)
{
    void *memory = NULL;
    struct error err = {0};
    if (device_memory_new(piece->device, bytes, &memory, &err))
        fprintf(stderr, "bench_gpu_pieces: %s\n", err.text);
    else
        queue_fill(piece->queue, memory, byte, bytes);
    return memory;
}

double piece_ms(struct piece *piece, void (*enqueue)(struct piece *piece, void *arg), void *arg)
{
    double ms[ROUNDS] = {0};
    struct error err = {0};
    for (int round = -1; round < ROUNDS; round++) {
        (void)queue_finish(piece->queue, NULL);
        double began = rounds_now_ms();
        for (int i = 0; i < EACH; i++)
            enqueue(piece, arg);
        if (queue_finish(piece->queue, &err)) {
            fprintf(stderr, "bench_gpu_pieces: %s\n", err.text);
            return -1;
        }
        if (round >= 0)
            ms[round] = (rounds_now_ms() - began) / EACH;
    }
    return rounds_median(ms, ROUNDS);
}

/* 0: not one. */
static int64_t number(const char *text)
{
    char *end;
    long long x = strtoll(text, &end, 10);
    return *text && !*end && x > 0 ? x : 0;
}

int main(int argc, char **argv)
{
    struct piece piece = {0};
    int64_t n[5] = {0};
    for (int i = 2; i < argc && i < 7; i++)
        n[i - 2] = number(argv[i]);
    bool adamw = argc == 3 && strcmp(argv[1], "adamw") == 0 && n[0];
    bool attention = argc == 7 && strcmp(argv[1], "attention") == 0 && n[0] && n[1] && n[2] &&
                     n[3] && n[4] && n[2] % n[3] == 0 && n[2] <= 1024 && n[4] <= 256;
    if (!adamw && !attention) {
        fprintf(stderr, "usage: bench_gpu_pieces adamw COUNT\n"
                        "       bench_gpu_pieces attention SAMPLES LENGTH HEADS KV_HEADS SIZE\n");
        return 2;
    }
    const struct attention_shape shape = {n[0], n[1], (int)n[2], (int)n[3], (int)n[4]};
    int rc = piece_open(&piece);
    if (!rc)
        rc = adamw ? piece_adamw(&piece, n[0]) : piece_attention(&piece, &shape);
    piece_close(&piece);
    return rc;
}
