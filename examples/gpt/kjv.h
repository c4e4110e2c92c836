/* The King James Bible as Debian's package bible-kjv-text ships it: /usr/lib/bible.data, the text
 * in blocks of 64 KiB, each packed by the algorithm of compress(1). Unpacked here, so that the
 * package is all the example needs.
 */
#ifndef GPT_KJV_H
#define GPT_KJV_H

#include <stddef.h>

#define KJV_PATH "/usr/lib/bible.data"

/* The whole text in malloc'd memory the caller frees; NULL when the file is absent or another. */
char *kjv_read(const char *path, size_t *ret_size);

#endif
