/* Small file work of checkpoints: whole writes and reads on descriptors relative to a folder, each
 * with a sentence about what failed. Owned descriptors are the caller's. Any thread.
 */
#ifndef CHECKPOINT_FILE_H
#define CHECKPOINT_FILE_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/arena.h"
#include "common/base/error.h"

/* mkdir -p. */
int file_make_dirs(const char *path, struct error *err);

/* Create a new file in `folder` holding `data`, synced. */
int file_write(int folder, const char *name, const void *data, size_t size, struct error *err);

/* All of `data` at the descriptor's place. */
int file_append(int fd, const void *data, size_t size, struct error *err);

/* A file that writing came to an end of with `rc`: synced if that is 0, and closed in any case.
 * Returns rc or what failed now; the sentence in err, of either, gets the file's name in front. */
int file_end(int fd, const char *name, int rc, struct error *err);

/* A plain file to read, and how long it is; the descriptor is the caller's. WK_ENOTFOUND where
 * there is none, WK_ENOMEM without descriptors, WK_EIO where it is no plain file or cannot be read.
 */
int file_open(int folder, const char *name, int *ret_fd, uint64_t *ret_bytes, struct error *err);

/* Those codes, with `what` and errno's sentence. */
int file_unreadable(struct error *err, int errno_value, const char *what);

/* A parser whose memory is `arena` failed, with the sentence in err: WK_ENOMEM where memory was
 * out, which says nothing of the file, else the file is damaged: WK_EIO. */
int file_unparsed(const struct arena *arena, struct error *err);

/* Exactly `size` bytes from `offset`; WK_EIO when there are fewer or they cannot be read. */
int file_read_at(int fd, void *ret, size_t size, uint64_t offset, struct error *err);

/* The whole file, at most `max` bytes, into malloc'd, NUL-terminated memory the caller frees. Codes
 * as file_open; WK_EIO for a longer one, WK_ENOMEM. */
int file_read(int folder, const char *name, size_t max, char **ret, size_t *ret_size,
              struct error *err);

/* Remove a folder of plain files and empty folders. Folders that hold something are refused; absent
 * is fine. */
int file_remove_folder(const char *path, struct error *err);

/* fsync of a folder, so that names in it are durable. */
int file_sync_folder(const char *path, struct error *err);

#endif
