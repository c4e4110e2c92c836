/* The folders of a user's files, by the XDG base directory specification 0.8: the configuration in
 * $XDG_CONFIG_HOME/muster or ~/.config/muster, data in $XDG_DATA_HOME/muster or
 * ~/.local/share/muster, sockets in $XDG_RUNTIME_DIR/muster or /tmp/muster-<uid>. Relative values
 * of the variables are ignored, as the specification requires. Nothing is created. E_NOT_FOUND
 * without HOME, E_OUT_OF_RANGE if the path does not fit. Reads the environment: call it early, on
 * one thread. */
#ifndef ENV_PATHS_H
#define ENV_PATHS_H

#include <stddef.h>

#include "common/base/error.h"

int paths_config_dir(char *ret, size_t size, struct error *err);
int paths_data_dir(char *ret, size_t size, struct error *err);
int paths_runtime_dir(char *ret, size_t size, struct error *err);

/* E_FAILED_PRECONDITION if another user may control the folder's content: the folder, or a link on
 * the way to it, is owned by another user that is not root, or all users may write in it. */
int paths_check_folder(const char *path, struct error *err);

/* `dir`/`name`; E_OUT_OF_RANGE if it does not fit. */
int paths_join(char *ret, size_t size, const char *dir, const char *name, struct error *err);

/* Make a path absolute against the working directory; the path need not exist. */
int paths_absolute(char *ret, size_t size, const char *path, struct error *err);

#endif
