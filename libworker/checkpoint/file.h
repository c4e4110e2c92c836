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

/* Finish a file after writing with result `rc`: sync it if that is 0, and close it in any case.
 * Returns rc or the new failure; the sentence in err gets the file's name in front. */
int file_end(int fd, const char *name, int rc, struct error *err);

/* Open a plain file for reading, with its length; the caller owns the descriptor. WK_ENOTFOUND if
 * it does not exist, WK_ENOMEM without descriptors, WK_EIO if it is not a plain file or cannot be
 * read. */
int file_open(int folder, const char *name, int *ret_fd, uint64_t *ret_bytes, struct error *err);

/* Those codes, with `what` and errno's sentence. */
int file_unreadable(struct error *err, int errno_value, const char *what);

/* A parser with memory `arena` failed, with the sentence in err. WK_ENOMEM if memory was out, and
 * the file may be good; otherwise the file is damaged: WK_EIO. */
int file_unparsed(const struct arena *arena, struct error *err);

/* Exactly `size` bytes from `offset`; WK_EIO when there are fewer or they cannot be read. */
int file_read_at(int fd, void *ret, size_t size, uint64_t offset, struct error *err);

/* The whole file, at most `max` bytes, into malloc'd, NUL-terminated memory the caller frees. Codes
 * as file_open; WK_EIO for a longer one, WK_ENOMEM. */
int file_read(int folder, const char *name, size_t max, char **ret, size_t *ret_size,
              struct error *err);

/* Remove a folder of plain files and empty folders. Non-empty folders are refused; a missing one is
 * allowed. */
int file_remove_folder(const char *path, struct error *err);

/* fsync of a folder, so that names in it are durable. */
int file_sync_folder(const char *path, struct error *err);

#endif
