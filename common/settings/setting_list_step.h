/* The settings of a step's computation: strategy, precision, mesh, optimizer, buckets and
 * memory. A mesh size of 0 is whatever is left of the world. Columns: setting.h, SETTINGS_LIST. */
#ifndef SETTINGS_SETTING_LIST_STEP_H
#define SETTINGS_SETTING_LIST_STEP_H

#define SETTINGS_OF_STEPS(X)                                                                       \
    X(STRATEGY, "strategy", CHOICE, OF_JOB, "ddp", 0, 0, "ddp|zero1|zero2|fsdp",                   \
      "how the model is spread over the ranks")                                                    \
    X(DEVICE, "device", CHOICE, OF_JOB, "auto", 0, 0, "auto|cpu|cuda",                             \
      "where a rank computes; auto = on its GPU, if it has one, else on the CPU")                  \
    X(ATTENTION, "attention", CHOICE, OF_JOB, "auto", 0, 0, "auto|own|cudnn",                      \
      "which attention a GPU computes: Muster's own, or cuDNN's where it can; auto = cuDNN's "     \
      "where gradients then have the same bits on every run")                                      \
    X(COMPILE, "compile", CHOICE, OF_JOB, "auto", 0, 0, "auto|off|on",                             \
      "whether a GPU repeats passes and updates as CUDA graphs; auto = those with little "         \
      "work in a launch")                                                                          \
    X(MIXED_PRECISION, "mixed_precision", CHOICE, OF_JOB, "no", 0, 0, "no|fp16|bf16|fp8",          \
      "type of the matrix arithmetic")                                                             \
    X(STOCHASTIC_ROUNDING, "stochastic_rounding", BOOL, OF_JOB, "false", 0, 0, NULL,               \
      "bf16: round parameters up or down at random, so that small updates count on average")       \
    X(LOW_GRADIENTS, "low_gradients", BOOL, OF_JOB, "false", 0, 0, NULL,                           \
      "zero1, zero2, fsdp: sum gradients in the type of mixed_precision: half the bytes, rounded") \
    X(LOSS_SCALE_INITIAL, "loss_scale.initial", NUMBER, OF_JOB, "65536", 0, INT64_MAX, ">",        \
      "fp16: first loss scale; the loss is multiplied by it")                                      \
    X(LOSS_SCALE_GROWTH, "loss_scale.growth", NUMBER, OF_JOB, "2", 1, 1024, ">",                   \
      "fp16: factor of the loss scale after loss_scale.interval steps without overflow")           \
    X(LOSS_SCALE_BACKOFF, "loss_scale.backoff", NUMBER, OF_JOB, "0.5", 0, 1, "><",                 \
      "fp16: factor of the loss scale after an overflow; that step is skipped")                    \
    X(LOSS_SCALE_INTERVAL, "loss_scale.interval", INTEGER, OF_JOB, "2000", 1, INT64_MAX, NULL,     \
      "fp16: clean steps before the loss scale grows")                                             \
    X(ACCUMULATION, "gradient_accumulation_steps", INTEGER, OF_JOB, "1", 1, 65536, NULL,           \
      "batches per optimizer step")                                                                \
    X(BY_TOKENS, "accumulate_by_tokens", BOOL, OF_JOB, "false", 0, 0, NULL,                        \
      "weigh a step's batches by their number of tokens, not equally, in a program's own "         \
      "passes; our models always do")                                                              \
    X(MESH_DP, "mesh.dp", INTEGER, OF_JOB, "0", 0, 65536, NULL, "data-parallel ranks")             \
    X(MESH_DP_REPLICATE, "mesh.dp_replicate", INTEGER, OF_JOB, "0", 0, 65536, NULL,                \
      "replicas of a sharded model")                                                               \
    X(MESH_DP_SHARD, "mesh.dp_shard", INTEGER, OF_JOB, "0", 0, 65536, NULL,                        \
      "ranks that share one model")                                                                \
    X(MESH_CP, "mesh.cp", INTEGER, OF_JOB, "1", 1, 65536, NULL, "context-parallel ranks")          \
    X(MESH_TP, "mesh.tp", INTEGER, OF_JOB, "1", 1, 65536, NULL, "tensor-parallel ranks")           \
    X(MESH_PP, "mesh.pp", INTEGER, OF_JOB, "1", 1, 65536, NULL, "pipeline stages")                 \
    X(CLIP_GRAD_NORM, "clip_grad_norm", NUMBER, OF_JOB, "0", 0, 1000000, NULL,                     \
      "wk_step scales the gradients to at most this norm; 0 = no limit")                           \
    X(OPTIMIZER, "optimizer", CHOICE, OF_JOB, "adamw", 0, 0, "adamw|adam|sgd|lion|adafactor|muon", \
      "optimizer that wk_optimizer_new makes if the program does not choose one")                  \
    X(CLIP_GRAD_VALUE, "clip_grad_value", NUMBER, OF_JOB, "0", 0, 1000000, NULL,                   \
      "wk_step limits each element of the gradients to this, before the norm; 0 = no limit")       \
    X(SEED, "seed", INTEGER, OF_JOB, "1337", 0, INT64_MAX, NULL,                                   \
      "seed of every random "                                                                      \
      "sequence")                                                                                  \
    X(TOTAL_STEPS, "total_steps", INTEGER, OF_JOB, "0", 0, INT64_MAX, NULL,                        \
      "optimizer steps after which wk_next ends the loop; 0 = as the loader ends")                 \
    X(BUCKET_MIB, "bucket_mib", NUMBER, OF_JOB, "25", 0, 4096, NULL,                               \
      "size of the buckets in which gradients are reduced")                                        \
    X(FIRST_BUCKET_MIB, "first_bucket_mib", NUMBER, OF_JOB, "1", 0, 4096, NULL,                    \
      "size of the first bucket of a backward pass; a small one lets reducing start early")        \
    X(FIND_UNUSED, "ddp.find_unused", BOOL, OF_JOB, "false", 0, 0, NULL,                           \
      "parameters may get no gradient on some ranks; else that is an error")                       \
    X(STATIC_GRAPH, "ddp.static_graph", BOOL, OF_JOB, "false", 0, 0, NULL,                         \
      "every backward pass has the same gradients as the first one, equally often")                \
    X(DDP_HOOK, "ddp.hook", CHOICE, OF_JOB, "none", 0, 0, "none|fp16|bf16|powersgd",               \
      "how gradients are compressed on their way to the other ranks")                              \
    X(POWERSGD_RANK, "ddp.powersgd_rank", INTEGER, OF_JOB, "1", 1, 64, NULL,                       \
      "columns of the factors of a gradient")                                                      \
    X(POWERSGD_WARM_UP, "ddp.powersgd_warm_up", INTEGER, OF_JOB, "1000", 0, INT64_MAX, NULL,       \
      "steps of a generation that are summed uncompressed first")                                  \
    X(PREFETCH, "fsdp.prefetch", INTEGER, OF_JOB, "1", 0, 8, NULL,                                 \
      "blocks gathered ahead of the one in use")                                                   \
    X(RESHARD, "fsdp.reshard_after_forward", BOOL, OF_JOB, "true", 0, 0, NULL,                     \
      "free a block's parameters between its forward and backward pass")                           \
    X(RECOMPUTE, "recompute", CHOICE_OR_SIZE, OF_JOB, "none", 0, 0, "none|blocks|operations",      \
      "what the backward pass computes again instead of keeping it: nothing, whole blocks, cheap " \
      "operations, or as little as keeps a pass within a size; same bits")                         \
    X(ONE_RANK_READS, "one_rank_reads", BOOL, OF_JOB, "false", 0, 0, NULL,                         \
      "rank 0 alone reads the weights that a model starts with, and sends them")                   \
    X(OFFLOAD_STATE, "offload.state", CHOICE, OF_JOB, "none", 0, 0, "none|host",                   \
      "where a GPU's optimizer state is: in the GPU's memory, or in the host's, from where "       \
      "updates "                                                                                   \
      "fetch it in pieces; no effect on the CPU")                                                  \
    X(OFFLOAD_MASTERS, "offload.masters", CHOICE, OF_JOB, "none", 0, 0, "none|host",               \
      "in bf16 and fp16, where parameters in float are: in the GPU's memory, or in the host's, "   \
      "from where updates fetch them in pieces; no effect on the CPU")                             \
    X(OFFLOAD_ACTIVATIONS, "offload.activations", CHOICE, OF_JOB, "none", 0, 0, "none|host",       \
      "where a GPU's values wait for the backward pass: in the GPU's memory, or the largest in "   \
      "the host's, with copies beside both passes; no effect on the CPU")                          \
    X(OFFLOAD_DIR, "offload.dir", TEXT, OF_JOB, "", 0, 0, NULL,                                    \
      "folder for the optimizer's state, on disk; empty = the state stays in memory")              \
    X(OFFLOAD_PARAMETERS, "offload.parameters", BOOL, OF_JOB, "false", 0, 0, NULL,                 \
      "keep each rank's part of the parameters in offload.dir too; strategy fsdp")

#endif
