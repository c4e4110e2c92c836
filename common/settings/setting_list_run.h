/* The settings of a run: checkpoints, communication, metrics and logs. Columns:
 * setting.h, SETTINGS_LIST. */
#ifndef SETTINGS_SETTING_LIST_RUN_H
#define SETTINGS_SETTING_LIST_RUN_H

#define SETTINGS_OF_RUNS(X)                                                                        \
    X(CHECKPOINT_DIR, "checkpoint.dir", TEXT, OF_CHECKPOINT, "", 0, 0, NULL,                       \
      "folder of the checkpoints, reached by every rank; empty = none are written")                \
    X(CHECKPOINT_EVERY, "checkpoint.every", INTERVAL, OF_CHECKPOINT, "", 0, 0, NULL,               \
      "\"200 steps\" or a time such as \"10m\"; empty = only at the end")                          \
    X(CHECKPOINT_KEEP, "checkpoint.keep", INTEGER, OF_CHECKPOINT, "3", 0, 100000, NULL,            \
      "how many stay on disk; 0 = all")                                                            \
    X(CHECKPOINT_PATIENCE, "checkpoint.patience", DURATION, OF_JOB, "10m", 0, INT64_MAX, NULL,     \
      "how long to ask an unreachable coordinator to commit a checkpoint, and to retry the "       \
      "last one")                                                                                  \
    X(RESUME_FROM, "resume_from", TEXT, OF_JOB, "", 0, 0, NULL,                                    \
      "checkpoint to start from: a path, or \"latest\" of checkpoint.dir")                         \
    X(COMM_TIMEOUT, "comm_timeout", DURATION, OF_JOB, "30m", 1000, INT64_MAX, NULL,                \
      "time limit of one collective")                                                              \
    X(COMM_WAYS, "comm_ways", TEXT, OF_JOB, "", 0, 0, NULL,                                        \
      "algorithms of all-reduces between hosts, by size: \"direct:8K sliced:1M chain\"; empty "    \
      "= as measured")                                                                             \
    X(COMM_CONNECTIONS, "comm_connections", INTEGER, OF_JOB, "0", 0, 4, NULL,                      \
      "TCP connections between two ranks of different hosts; 0 = as measured")                     \
    X(COLLECTIVES_SUMS, "collectives.sums", CHOICE, OF_JOB, "ordered", 0, 0, "ordered|fast",       \
      "how GPUs sum floats over the ranks: in rank order, with the bits of CPUs; or as is "        \
      "fastest for the GPUs")                                                                      \
    X(COLLECTIVES_DEVICE, "collectives.device", CHOICE, OF_JOB, "auto", 0, 0, "auto|off",          \
      "auto = GPUs exchange data themselves where all ranks can; off = through their hosts")       \
    X(COLLECTIVES_BETWEEN, "collectives.between", CHOICE, OF_JOB, "nccl", 0, 0, "nccl|tcp",        \
      "how GPUs of several hosts exchange data: nccl = themselves; tcp = in two levels, by "       \
      "themselves within a host and by TCP between hosts")                                         \
    X(CONNECT_TIMEOUT, "connect_timeout", DURATION, OF_JOB, "30s", 100, INT64_MAX, NULL,           \
      "time limit for the ranks of one generation to connect")                                     \
    X(RENDEZVOUS_TIMEOUT, "rendezvous_timeout", DURATION, OF_MACHINE, "60s", 100, INT64_MAX, NULL, \
      "time limit for the ranks to meet at MASTER_ADDR, when there is no agent")                   \
    X(BIND_ADDRESS, "bind_address", TEXT, OF_MACHINE, "", 0, 0, NULL,                              \
      "address at which peers reach this machine; empty = the one with the route to "              \
      "MASTER_ADDR")                                                                               \
    X(LOG_FILE, "log_file", TEXT, OF_JOB, "", 0, 0, NULL,                                          \
      "JSON lines file that rank 0 appends metrics to; empty = none")                              \
    X(LOG_CSV, "log_csv", TEXT, OF_JOB, "", 0, 0, NULL,                                            \
      "CSV file that rank 0 appends metrics to: step, time, name, value; empty = none")            \
    X(LOG_TENSORBOARD, "log_tensorboard", TEXT, OF_JOB, "", 0, 0, NULL,                            \
      "folder of TensorBoard event files that rank 0 writes; empty = none")                        \
    X(TRACE_FILE, "trace_file", TEXT, OF_JOB, "", 0, 0, NULL,                                      \
      "Chrome trace of rank 0's steps; empty = none")                                              \
    X(LOG_EVERY, "log_every", INTEGER, OF_JOB, "10", 0, INT64_MAX, NULL,                           \
      "steps between progress lines on rank 0's standard output; 0 = none")

#endif
