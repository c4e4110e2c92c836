/* Removes a folder whose content belongs to somebody else, who may rename and link inside it at the
 * same moment. Every step goes from an open folder to a name in it and follows no symbolic link, so
 * that nothing outside of the folder can be reached. Any thread; blocks.
 */
#ifndef ENV_DISK_REMOVE_H
#define ENV_DISK_REMOVE_H

/* Removes `path`, a file or a folder with all that is below it. The folder that holds `path` is
 * trusted: only this user and root may write to it. Returns 0, also when there is no such path, or
 * the first errno; what can be removed is removed in any case.
 *
 * Details: other file systems are not entered (EXDEV). A folder below one of another user is
 * entered only if it belongs to the same user (EPERM), because a worker may have moved somebody
 * else's folder there. */
int disk_remove(const char *path);

#endif
