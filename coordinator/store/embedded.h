/* Files compiled into the binary by embed.cmake: migrations, the web page. Read only, any thread.
 */
#ifndef STORE_EMBEDDED_H
#define STORE_EMBEDDED_H

#include <stddef.h>

struct embedded_file {         /* arrays end with a NULL name */
    const char *name;          /* without its folder */
    const unsigned char *data; /* followed by a NUL that `size` does not count */
    size_t size;
};

extern const struct embedded_file store_migrations[];
extern const struct embedded_file web_files[]; /* of coordinator/api_rest */

#endif
