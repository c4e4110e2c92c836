/* What the store keeps about itself under a key (put_meta, get_meta of store.h), and how far a
 * restored one skips ahead.
 */
#ifndef STORE_META_H
#define STORE_META_H

enum { STORE_META_KEY_MAX = 79, STORE_META_VALUE_MAX = 255 };

/* A restored store skips what may have happened since its backup. Job numbers, and generations and
 * workers of unfinished jobs, continue this much higher, so that no id, run folder or generation of
 * that time appears twice. Workers that were to start count as started, so that their nodes report
 * their state. Forming groups are dropped, and training groups form again. */
enum { RESTORE_SKIPS_JOBS = 100000, RESTORE_SKIPS = 1000000 };

/* Meta keys: the cluster's id; and when the store was last restored from a backup. That is an
 * administrator's decision that its history is an older one; each restore has a later time than the
 * ones before. */
#define STORE_CLUSTER_KEY  "cluster"
#define STORE_RESTORED_KEY "restored_wall_ms"

/* The meta key of the first job number that may be given out, written by a restore. */
#define STORE_FIRST_JOB_KEY "first_job"

#endif
