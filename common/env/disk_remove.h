/* Removes a folder with content of another user, who may rename and link inside it at the same
 * moment. Every step opens a name inside an open folder without following symbolic links, so
 * nothing outside the folder can be reached. Any thread; blocks. */
#ifndef ENV_DISK_REMOVE_H
#define ENV_DISK_REMOVE_H

/* Remove `path`, a file or a whole folder. The folder above `path` is trusted: only this user and
 * root may write to it. Returns 0, also if `path` does not exist, or the first errno; everything
 * that can be removed is removed in any case.
 *
 * Details: other file systems are not entered (EXDEV). Inside a folder of another user only folders
 * of the same user are entered (EPERM), because a worker may have moved another user's folder
 * there.
 */
int disk_remove(const char *path);

#endif
